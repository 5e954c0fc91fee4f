/**
 * What the queue holds in memory: up to `size` waiting lines, shared out over subscriptions, so that no backlog can
 * fill it. Lines without room stay in storage and are read in pages later.
 */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { WakeTimer } from "./wake-timer.ts";
import {
  dequeue,
  enqueue,
  evictLast,
  firstAt,
  newLine,
  newSubscriptionQueue,
  nextAt,
  pausedMs,
  storedAt,
  waitsUntil,
  type SubscriptionQueue,
  type QueueLine,
} from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";

export interface Window {
  readonly queues: ReadonlyMap<string, SubscriptionQueue>;
  /** Subscription queues that may have something due now, in the order of service. */
  readonly ready: Set<SubscriptionQueue>;
  /** Those of them that the last claim skipped, because they had enough under way. */
  readonly blocked: Set<SubscriptionQueue>;
  queueOf(id: string): SubscriptionQueue;
  /** Files the subscription queue after any change: among the ready ones, or under the time at which it will be. */
  touch(queue: SubscriptionQueue): void;
  /** Holds a line that waits until `at` (the queue's time), if there is room; else it stays in storage. */
  hold(queue: SubscriptionQueue, due: Due, at: number): void;
  /** Removes a line from those that wait. */
  take(line: QueueLine): void;
  /** Forgets a subscription queue with all its waiting lines. */
  drop(queue: SubscriptionQueue): void;
  /** Forgets empty subscription queues. */
  prune(): void;
  waiting(): number;
  /** Returns the free room; below 0 it is overfull. */
  free(): number;
  /** Returns the most lines to read for one subscription queue. */
  share(): number;
}

/** @param forgot called when a subscription queue was dropped for lack of room, so that only a sweep finds it again */
export function createWindow(deps: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly time: Timeline;
  readonly size: number;
  readonly timer: Pick<WakeTimer, "set" | "notify">;
  readonly forgot: () => void;
}): Window {
  const { clock, time, size, timer, forgot } = deps;
  const queues = new Map<string, SubscriptionQueue>();
  const ready = new Set<SubscriptionQueue>();
  const blocked = new Set<SubscriptionQueue>();
  let waiting = 0;
  /**
   * Until when lines wait that were given back for later and left to storage, by key: storage says that they are due.
   * As many as the window has lines; the oldest are forgotten first.
   */
  const laterLines = new Map<string, number>();
  /** Number of subscription queues at which idle ones are dropped: twice what the last time left. */
  let crowded = size;

  function evict(queue: SubscriptionQueue): void {
    const line = evictLast(queue, time);
    if (line !== undefined && waitsUntil(line, time) !== undefined) {
      setNewest(laterLines, DUE.key(line.due), line.at, size);
    }
    waiting--;
  }

  /** Makes room: cuts every queue to its share, then empties those that are due last. */
  function trim(): void {
    const latest = [...queues.values()].filter((queue) => queue.waiting.length > 0);
    const most = share(size, latest.length);
    for (const queue of latest) while (queue.waiting.length > most) evict(queue);
    if (waiting <= size) return;
    latest.sort((a, b) => nextAt(b, time, clock) - nextAt(a, time, clock));
    for (const queue of latest) {
      if (waiting <= size * 0.9) break;
      while (queue.waiting.length > 0) evict(queue);
      if (queue.lines.size > 0 || pausedMs(queue, clock) > 0) continue;
      drop(queue);
      forgot();
    }
  }

  /** Returns when a line that is held again may be claimed. */
  function rested(due: Due, at: number): number {
    if (laterLines.size === 0) return at;
    const key = DUE.key(due);
    const until = laterLines.get(key) ?? at;
    laterLines.delete(key);
    return Math.max(at, until);
  }

  function drop(queue: SubscriptionQueue): void {
    queues.delete(queue.id);
    ready.delete(queue);
    blocked.delete(queue);
    waiting -= queue.waiting.length;
  }

  function prune(): void {
    for (const queue of queues.values()) {
      if (queue.lines.size === 0 && queue.behind === undefined && pausedMs(queue, clock) === 0) drop(queue);
    }
    crowded = Math.max(size, queues.size * 2);
  }

  return {
    queues,
    ready,
    blocked,
    drop,
    prune,
    queueOf(id) {
      const known = queues.get(id);
      if (known !== undefined) return known;
      if (queues.size >= crowded) prune();
      const queue = newSubscriptionQueue(id);
      queues.set(id, queue);
      return queue;
    },
    touch(queue) {
      if (queues.get(queue.id) !== queue) return; // Dropped meanwhile.
      const next = nextAt(queue, time, clock, Math.min(firstAt(queue, time), storedAt(queue, time)));
      if (next <= time.now()) {
        ready.add(queue);
        timer.notify();
        return;
      }
      ready.delete(queue);
      blocked.delete(queue);
      timer.set(next, queue);
    },
    hold(queue, due, at) {
      const line = newLine(queue, due, rested(due, at));
      queue.lines.set(due.ordinal, line);
      enqueue(line);
      waiting++;
      if (queue.waiting.length > share(size, 1)) evict(queue);
      if (waiting > size) trim();
    },
    take(line) {
      dequeue(line);
      waiting--;
    },
    waiting: () => waiting,
    free: () => 1 - waiting / size,
    share: () => share(size, waiting * 2 > size ? queues.size : 1),
  };
}

/** Returns the most waiting lines of one of so many queues; never more than a quarter. */
const share = (size: number, among: number): number =>
  Math.max(1, Math.min(size >> 2, Math.floor((size * 0.9) / Math.max(1, among))));
