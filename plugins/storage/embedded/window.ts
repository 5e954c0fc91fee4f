/**
 * What the queue holds in memory: up to `size` waiting lines, shared out over subscriptions, so that no backlog can
 * fill it. Lines without room stay in storage and are read in pages later.
 */
import { setNewest } from "../../../core/model/bounded-map.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { dueKey } from "../../../core/model/keys.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { WakeTimer } from "./wake-timer.ts";
import {
  dequeue,
  enqueue,
  evictLast,
  newSubscriptionQueue,
  nextAt,
  pausedMs,
  restsUntil,
  type SubscriptionQueue,
  type QueueLine,
} from "./subscription-queue.ts";
import type { Timeline } from "./timeline.ts";

export interface Window {
  readonly lanes: ReadonlyMap<string, SubscriptionQueue>;
  /** Subscription queues that may have something due now, in the order of service. */
  readonly ready: Set<SubscriptionQueue>;
  laneOf(id: string): SubscriptionQueue;
  /** Files the subscription queue after any change: among the ready ones, or under the time at which it will be. */
  touch(lane: SubscriptionQueue): void;
  /** Holds a line that waits until `at` (the queue's time), if there is room; else it stays in storage. */
  hold(lane: SubscriptionQueue, due: Due, at: number): void;
  /** Removes a line from those that wait. */
  take(lane: SubscriptionQueue, line: QueueLine): void;
  /** Forgets a subscription queue with all its waiting lines. */
  drop(lane: SubscriptionQueue): void;
  /** Forgets empty subscription queues. */
  prune(): void;
  waiting(): number;
  /** Returns the free room; below 0 it is overfull. */
  free(): number;
  /** Returns the most lines to read for one subscription queue. */
  share(): number;
}

/**
 * @param forgot called when a subscription queue was dropped for lack of room, so that only a sweep finds it again
 * @param left called when a line is left to storage
 */
export function createWindow(deps: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly time: Timeline;
  readonly size: number;
  readonly bell: Pick<WakeTimer, "set" | "ring">;
  readonly forgot: () => void;
  readonly left: () => void;
}): Window {
  const { clock, time, size, bell, forgot, left } = deps;
  const lanes = new Map<string, SubscriptionQueue>();
  const ready = new Set<SubscriptionQueue>();
  let waiting = 0;
  /**
   * Until when lines wait that were given back for later and left to storage, by key: storage says that they are due.
   * As many as the window has lines; the oldest are forgotten first.
   */
  const rests = new Map<string, number>();
  /**
   * Number of subscription queues at which idle ones are forgotten; twice what was left the last time, so that this
   * costs little.
   */
  let crowded = size;

  /** Returns the most waiting lines of one of so many queues; never more than a quarter. */
  function share(among: number): number {
    return Math.max(1, Math.min(size >> 2, Math.floor((size * 0.9) / Math.max(1, among))));
  }

  function evict(lane: SubscriptionQueue): void {
    const line = evictLast(lane, time);
    if (line !== undefined && restsUntil(line, time) !== undefined) {
      setNewest(rests, dueKey(line.due), line.at, size);
    }
    waiting--;
    left();
  }

  /** Makes room: cuts every queue to its share, then empties those that are due last. */
  function trim(): void {
    const latest = [...lanes.values()].filter((lane) => lane.waiting.length > 0);
    const most = share(latest.length);
    for (const lane of latest) while (lane.waiting.length > most) evict(lane);
    if (waiting <= size) return;
    latest.sort((a, b) => nextAt(b, time, clock) - nextAt(a, time, clock));
    for (const lane of latest) {
      if (waiting <= size * 0.9) break;
      while (lane.waiting.length > 0) evict(lane);
      if (lane.lines.size > 0 || pausedMs(lane, clock) > 0) continue;
      drop(lane);
      forgot();
    }
  }

  /** Returns when a line that is held again may be claimed. */
  function rested(due: Due, at: number): number {
    if (rests.size === 0) return at;
    const key = dueKey(due);
    const rest = rests.get(key) ?? at;
    rests.delete(key);
    return Math.max(at, rest);
  }

  function drop(lane: SubscriptionQueue): void {
    lanes.delete(lane.id);
    ready.delete(lane);
    waiting -= lane.waiting.length;
  }

  function prune(): void {
    for (const lane of lanes.values()) {
      if (lane.lines.size === 0 && lane.behind === undefined && pausedMs(lane, clock) === 0) drop(lane);
    }
    crowded = Math.max(size, lanes.size * 2);
  }

  return {
    lanes,
    ready,
    drop,
    prune,
    laneOf(id) {
      const known = lanes.get(id);
      if (known !== undefined) return known;
      if (lanes.size >= crowded) prune();
      const lane = newSubscriptionQueue(id);
      lanes.set(id, lane);
      return lane;
    },
    touch(lane) {
      if (lanes.get(lane.id) !== lane) return; // Dropped meanwhile.
      const next = nextAt(lane, time, clock);
      if (next <= time.now()) {
        ready.add(lane);
        bell.ring();
        return;
      }
      ready.delete(lane);
      if (next >= lane.timerAt) return;
      lane.timerAt = next;
      bell.set(next, lane);
    },
    hold(lane, due, at) {
      const line: QueueLine = { due, at: rested(due, at), token: undefined, settling: false };
      lane.lines.set(due.ordinal, line);
      enqueue(lane, line);
      waiting++;
      if (lane.waiting.length > share(1)) evict(lane);
      if (waiting > size) trim();
    },
    take(lane, line) {
      dequeue(lane, line);
      waiting--;
    },
    waiting: () => waiting,
    free: () => 1 - waiting / size,
    share: () => share(waiting * 2 > size ? lanes.size : 1),
  };
}
