/** Holds up to `size` waiting lines, shared out over subscriptions. Others stay in storage, and are read later. */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { DUE } from "../../../core/model/schema.ts";
import { type QueueLine, SubscriptionQueue } from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";
import type { WakeTimer } from "./wake-timer.ts";

export class Window {
  readonly queues = new Map<string, SubscriptionQueue>();
  /** Subscription queues that may have something due now, in the order of service. */
  readonly ready = new Set<SubscriptionQueue>();
  /** Those of them that the last claim skipped, because they had enough under way. */
  readonly blocked = new Set<SubscriptionQueue>();
  /** A subscription queue was dropped for lack of room, so that only a sweep finds it again. */
  forgotten = false;
  readonly #time: Timeline;
  readonly #timer: WakeTimer;
  readonly #size: number;
  #waiting = 0;
  /**
   * Until when lines wait that were given back for later and left to storage, by key: storage says that they are due.
   * As many as the window has lines; the oldest are forgotten first.
   */
  readonly #laterLines = new Map<string, number>();
  /** Number of subscription queues at which idle ones are dropped: twice what the last time left. */
  #crowded: number;

  constructor(time: Timeline, timer: WakeTimer, size: number) {
    this.#time = time;
    this.#timer = timer;
    this.#size = size;
    this.#crowded = size;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Returns the free part of the room; below 0 it is overfull. */
  free(): number {
    return 1 - this.#waiting / this.#size;
  }

  /** Returns the most lines to read for one subscription queue. */
  share(): number {
    return this.#shareAmong(this.#waiting * 2 > this.#size ? this.queues.size : 1);
  }

  /** Returns the most waiting lines of one of so many queues; never more than a quarter. */
  #shareAmong(queues: number): number {
    return Math.max(1, Math.min(this.#size >> 2, Math.floor((this.#size * 0.9) / Math.max(1, queues))));
  }

  queueOf(id: string): SubscriptionQueue {
    const known = this.queues.get(id);
    if (known !== undefined) return known;
    if (this.queues.size >= this.#crowded) this.prune();
    const queue = new SubscriptionQueue(id, this.#time);
    this.queues.set(id, queue);
    return queue;
  }

  /** Files the subscription queue after any change: among the ready ones, or under the time at which it will be. */
  touch(queue: SubscriptionQueue): void {
    if (this.queues.get(queue.id) !== queue) return; // Dropped meanwhile.
    const next = queue.nextAt(Math.min(queue.firstAt(), queue.storedAt()));
    if (next <= this.#time.now()) {
      this.ready.add(queue);
      this.#timer.notify();
      return;
    }
    this.ready.delete(queue);
    this.blocked.delete(queue);
    this.#timer.set(next, queue);
  }

  /** Holds a line that waits until `at`, if there is room; else it stays in storage. */
  hold(queue: SubscriptionQueue, due: Due, at: number): void {
    queue.enqueue(queue.add(due, this.#rested(due, at)));
    this.#waiting++;
    if (queue.waiting.length > this.#shareAmong(1)) this.#evict(queue);
    if (this.#waiting > this.#size) this.#trim();
  }

  /** Removes a line from those that wait. */
  take(line: QueueLine): void {
    line.queue.dequeue(line);
    this.#waiting--;
  }

  /** Forgets a subscription queue with all its waiting lines. */
  drop(queue: SubscriptionQueue): void {
    this.queues.delete(queue.id);
    this.ready.delete(queue);
    this.blocked.delete(queue);
    this.#waiting -= queue.waiting.length;
  }

  /** Forgets empty subscription queues. */
  prune(): void {
    for (const queue of this.queues.values()) {
      if (queue.lines.size === 0 && queue.behind === undefined && queue.pausedMs() === 0) this.drop(queue);
    }
    this.#crowded = Math.max(this.#size, this.queues.size * 2);
  }

  /** Returns when a line that is held again may be claimed. */
  #rested(due: Due, at: number): number {
    if (this.#laterLines.size === 0) return at;
    const key = DUE.key(due);
    const until = this.#laterLines.get(key) ?? at;
    this.#laterLines.delete(key);
    return Math.max(at, until);
  }

  #evict(queue: SubscriptionQueue): void {
    const line = queue.evictLast();
    if (line !== undefined && queue.waitsUntil(line) !== undefined) {
      setNewest(this.#laterLines, DUE.key(line.due), line.at, this.#size);
    }
    this.#waiting--;
  }

  /** Makes room: cuts every queue to its share, then empties those that are due last. */
  #trim(): void {
    const latest = [...this.queues.values()].filter((queue) => queue.waiting.length > 0);
    const most = this.#shareAmong(latest.length);
    for (const queue of latest) while (queue.waiting.length > most) this.#evict(queue);
    if (this.#waiting <= this.#size) return;
    latest.sort((a, b) => b.nextAt() - a.nextAt());
    for (const queue of latest) {
      if (this.#waiting <= this.#size * 0.9) break;
      while (queue.waiting.length > 0) this.#evict(queue);
      if (queue.lines.size > 0 || queue.pausedMs() > 0) continue;
      this.drop(queue);
      this.forgotten = true;
    }
  }
}
