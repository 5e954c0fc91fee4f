/**
 * The queue of one process: leases over a window of the due lines. Leases are tokens in memory. They end with the
 * process, and the lines stay in storage.
 */
import { LeaseLostError } from "../../../core/model/errors.ts";
import { duesOf } from "../../../core/model/keys.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, ClaimRequest, Entry, Lease, Queue, RangeOptions } from "../../../core/ports/storage.ts";
import { wakeTimer } from "./wake-timer.ts";
import { createRefill } from "./refill.ts";
import {
  firstAt,
  isBehind,
  leaveToStorage,
  pausedMs,
  storedAt,
  type SubscriptionQueue,
  type QueueLine,
} from "./subscription-queue.ts";
import { timeline } from "./timeline.ts";
import { createWindow } from "./window.ts";

/** A subscription queue with fewer lines than this reads more from storage. */
const LOW = 64;
/** How long to wait after a page could not be read, ms. */
const AGAIN_MS = 1_000;

export interface QueueDeps {
  readonly range: (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]>;
  readonly commit: (changes: readonly Change[]) => Promise<void>;
  readonly clock: Clock;
  /** Returns how many due lines there are, where the storage keeps count. */
  readonly stored?: () => number | undefined;
  /** Returns how many keys start with the prefix. */
  readonly count: (prefix: string) => Promise<number>;
  /** Most lines that wait in memory. @default 10_000 */
  readonly window?: number;
}

export interface WindowQueue extends Queue {
  /** Ends every wait and every background read. */
  close(): Promise<void>;
}

export function createQueue({ range, commit, clock, stored, count, window: size = 10_000 }: QueueDeps): WindowQueue {
  const time = timeline(clock);
  const bell = wakeTimer(clock, time, (lane) => window.touch(lane));
  const window = createWindow({
    clock,
    time,
    size,
    bell,
    forgot: () => feeder.forgot(),
    left: () => feeder.left(),
  });
  const feeder = createRefill({
    range,
    clock,
    time,
    window,
    ring: bell.ring,
    later: (lane) => bell.set(time.now() + AGAIN_MS, lane),
  });
  let leased = 0;
  let tokens = 0;

  function held(lease: Lease): { readonly lane: SubscriptionQueue; readonly line: QueueLine } | undefined {
    const lane = window.lanes.get(lease.subscriptionId);
    const line = lane?.lines.get(lease.ordinal);
    return lane !== undefined && line !== undefined && line.token === lease.token ? { lane, line } : undefined;
  }

  function endLease(lane: SubscriptionQueue, line: QueueLine): void {
    lane.lines.delete(line.due.ordinal);
    leased--;
    feeder.moved(line.due);
    unblock(lane);
  }

  /** A delivery of the subscription queue is no longer under way, or soon will not be. */
  function unblock(lane: SubscriptionQueue): void {
    if (!lane.blocked) return;
    lane.blocked = false;
    setImmediate(bell.ring);
  }

  function take({ limit, perSubscription, busy }: ClaimRequest, taken: Map<string, number>, leases: Lease[]): void {
    const now = time.now();
    bell.look(now);
    // A queue that gave a line goes to the end and is served again; one that is skipped stays and is not.
    for (const lane of window.ready) {
      if (leases.length >= limit) return;
      const open = pausedMs(lane, clock) === 0;
      const line = open ? lane.waiting[0] : undefined;
      if (line === undefined || line.at > now) {
        if (open && storedAt(lane, time) <= now) feeder.hungry(lane);
        else window.touch(lane);
        continue;
      }
      const own = taken.get(lane.id) ?? 0;
      if ((busy.get(lane.id) ?? 0) + own >= perSubscription) {
        lane.blocked = true;
        continue;
      }
      taken.set(lane.id, own + 1);
      leases.push(lend(lane, line));
      if (lane.waiting.length < LOW && lane.behind !== undefined) feeder.hungry(lane);
      window.ready.delete(lane);
      window.ready.add(lane);
    }
  }

  function lend(lane: SubscriptionQueue, line: QueueLine): Lease {
    window.take(lane, line);
    leased++;
    line.token = String(++tokens);
    return { ...line.due, token: line.token };
  }

  function add(due: Due): void {
    const lane = window.laneOf(due.subscriptionId);
    const known = lane.lines.get(due.ordinal);
    if (known !== undefined) {
      if (known.token !== undefined) return;
      window.take(lane, known);
      lane.lines.delete(due.ordinal);
    }
    if (isBehind(lane, due)) leaveToStorage(lane, due);
    else window.hold(lane, due, time.at(due));
    window.touch(lane);
  }

  return {
    add(dues) {
      for (const due of dues) add(due);
    },

    async claim(request) {
      bell.quiet();
      const leases: Lease[] = [];
      const taken = new Map<string, number>();
      take(request, taken, leases);
      const fed = feeder.feed();
      if (leases.length === 0 && fed !== undefined) {
        await fed;
        take(request, taken, leases);
      }
      if (leases.length >= request.limit && window.ready.size > 0) bell.ring();
      return leases;
    },

    wake: (signal) => bell.wait(signal),

    extend: (lease) => held(lease) !== undefined,

    async settle(lease, changes, then) {
      const own = held(lease);
      if (own === undefined || own.line.settling) throw new LeaseLostError();
      const { lane, line } = own;
      line.settling = true;
      lane.settling++;
      try {
        await commit(changes);
      } finally {
        line.settling = false;
        lane.settling--;
        if (lane.settling === 0 && lane.settled.length > 0) for (const tell of lane.settled.splice(0)) tell();
      }
      // Cancelled meanwhile: the commit stands, and the lease is lost.
      if (line.token !== lease.token) return;
      if (then?.keep !== undefined) {
        feeder.moved(line.due);
        line.due = then.keep;
        return unblock(lane);
      }
      endLease(lane, line);
      if (then?.next !== undefined) add(then.next);
    },

    async release(lease, dueAt) {
      const own = held(lease);
      if (own === undefined) return;
      const { lane, line } = own;
      lane.lines.delete(line.due.ordinal);
      leased--;
      window.hold(lane, line.due, dueAt === undefined ? Math.min(time.at(line.due), time.now()) : time.soon(dueAt));
      unblock(lane);
      window.touch(lane);
    },

    async pause(subscriptionId, ms) {
      const lane = ms > 0 ? window.laneOf(subscriptionId) : window.lanes.get(subscriptionId);
      if (lane === undefined) return;
      lane.pauseEnds = ms > 0 ? clock.monotonic() + ms : 0;
      window.touch(lane);
    },

    async hold(subscriptionId, ms) {
      const lane = ms > 0 ? window.laneOf(subscriptionId) : window.lanes.get(subscriptionId);
      if (lane === undefined) return;
      lane.holdEnds = ms > 0 ? clock.monotonic() + ms : 0;
      window.touch(lane);
    },

    async cancel(subscriptionId) {
      const lane = window.lanes.get(subscriptionId);
      if (lane === undefined) return;
      window.drop(lane);
      leased -= lane.lines.size - lane.waiting.length;
      for (const line of lane.lines.values()) line.token = undefined;
      if (lane.settling > 0) await new Promise<void>((resolve) => void lane.settled.push(resolve));
    },

    sweep: () => feeder.sweep(),

    async depth() {
      const now = time.now();
      let oldest: number | undefined;
      let all = feeder.knowsAll();
      for (const lane of window.lanes.values()) {
        const at = firstAt(lane, time);
        // What is paused waits by intent: it is not late.
        if (at <= now && pausedMs(lane, clock) === 0 && (oldest === undefined || at < oldest)) oldest = at;
        if (lane.behind !== undefined) all = false;
      }
      const known = window.waiting();
      const oldestDueAt = oldest === undefined ? undefined : oldest + time.ahead();
      return { waiting: all ? known : Math.max(known, (stored?.() ?? 0) - leased), leased, oldestDueAt };
    },

    async pending(subscriptionIds) {
      let lines = 0;
      for (const id of subscriptionIds) lines += await count(duesOf(id));
      return lines;
    },

    async close() {
      bell.close();
      await feeder.close();
    },
  };
}
