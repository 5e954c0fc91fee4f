/**
 * The queue of one process: a window over the due shelf of a storage.
 *
 * It holds up to `window` lines, shared out over subscriptions, so that no backlog can fill it; what it has no room for
 * stays in storage and is read by the page when there is. Leases are tokens in memory: they die with the process, and
 * storage still has the lines.
 */
import { LeaseLostError } from "../../../core/model/errors.ts";
import type { Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, ClaimRequest, Entry, Lease, Queue, RangeOptions } from "../../../core/ports/storage.ts";
import { alarm } from "./alarm.ts";
import { createFeeder } from "./feeder.ts";
import {
  dequeue,
  enqueue,
  evictLast,
  isBehind,
  leaveToStorage,
  newLane,
  nextAt,
  type Lane,
  type Line,
} from "./lane.ts";

/** A lane with fewer lines than this asks storage for more. */
const LOW = 64;
/** When a page could not be read, ms. */
const AGAIN_MS = 1_000;

export interface QueueDeps {
  readonly range: (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]>;
  readonly commit: (changes: readonly Change[]) => Promise<void>;
  readonly clock: Clock;
  /** How many lines the due shelf has, where the storage keeps count. */
  readonly stored?: () => number | undefined;
  /** Most lines that wait in memory. @default 10_000 */
  readonly window?: number;
}

export interface WindowQueue extends Queue {
  /** Ends every wait, and what it reads in the background. */
  close(): Promise<void>;
}

export function createQueue({ range, commit, clock, stored, window = 10_000 }: QueueDeps): WindowQueue {
  const lanes = new Map<string, Lane>();
  /** Lanes that may have something due now, in the order in which they are served. */
  const ready = new Set<Lane>();
  const bell = alarm(clock, wakeLane);
  let waiting = 0;
  let leased = 0;
  let tokens = 0;

  const feeder = createFeeder({
    range,
    lanes,
    laneOf,
    take: (due) => hold(laneOf(due.subscriptionId), due, due.dueAt),
    touch,
    free: () => 1 - waiting / window,
    share: () => share(waiting * 2 > window ? lanes.size : 1),
    later: (lane) => bell.set(clock.now() + AGAIN_MS, lane),
    ring: bell.ring,
    prune,
  });

  /** Most lines that one of so many lanes may have waiting in memory; never more than a quarter of the window. */
  function share(among: number): number {
    return Math.max(1, Math.min(window >> 2, Math.floor((window * 0.9) / Math.max(1, among))));
  }

  function laneOf(id: string): Lane {
    let lane = lanes.get(id);
    if (lane === undefined) lanes.set(id, (lane = newLane(id)));
    return lane;
  }

  /** A timer of the lane has come. */
  function wakeLane(lane: Lane): void {
    if (lanes.get(lane.id) === lane) touch(lane);
  }

  /** Files the lane where it belongs after any change: among the ready, or under the time at which it will be. */
  function touch(lane: Lane): void {
    const next = nextAt(lane);
    if (next <= clock.now()) {
      ready.add(lane);
      bell.ring();
      return;
    }
    ready.delete(lane);
    if (next >= lane.timerAt) return;
    lane.timerAt = next;
    bell.set(next, lane);
  }

  /** Holds a line that waits, if there is room for it; else storage keeps it. */
  function hold(lane: Lane, due: Due, at: number): void {
    const line: Line = { due, at, token: undefined, settling: false };
    lane.lines.set(due.ordinal, line);
    enqueue(lane, line);
    waiting++;
    if (lane.waiting.length > share(1)) evict(lane);
    if (waiting > window) trim();
  }

  function evict(lane: Lane): void {
    evictLast(lane);
    waiting--;
  }

  /** Makes room: every lane is cut to its share, then those that are due last are emptied. */
  function trim(): void {
    const latest = [...lanes.values()].filter((lane) => lane.waiting.length > 0);
    const most = share(latest.length);
    for (const lane of latest) while (lane.waiting.length > most) evict(lane);
    if (waiting <= window) return;
    latest.sort((a, b) => nextAt(b) - nextAt(a));
    for (const lane of latest) {
      if (waiting <= window * 0.9) break;
      while (lane.waiting.length > 0) evict(lane);
      if (lane.lines.size > 0 || lane.pausedUntil > 0) continue;
      lanes.delete(lane.id);
      ready.delete(lane);
      feeder.forgot();
    }
  }

  /** Forgets lanes that have nothing. */
  function prune(): void {
    const now = clock.now();
    for (const lane of lanes.values()) {
      if (lane.lines.size > 0 || lane.behind !== undefined || lane.pausedUntil > now) continue;
      lanes.delete(lane.id);
      ready.delete(lane);
    }
  }

  function held(lease: Lease): { readonly lane: Lane; readonly line: Line } | undefined {
    const lane = lanes.get(lease.subscriptionId);
    const line = lane?.lines.get(lease.ordinal);
    return lane !== undefined && line !== undefined && line.token === lease.token ? { lane, line } : undefined;
  }

  function endLease(lane: Lane, line: Line): void {
    lane.lines.delete(line.due.ordinal);
    leased--;
    feeder.moved(line.due);
    unblock(lane);
  }

  /** Something of the lane is no longer under way, or soon will not be, once the caller has taken note. */
  function unblock(lane: Lane): void {
    if (!lane.blocked) return;
    lane.blocked = false;
    setImmediate(bell.ring);
  }

  function take({ limit, perSubscription, busy }: ClaimRequest, taken: Map<string, number>, leases: Lease[]): void {
    const now = clock.now();
    bell.look(now);
    // A lane that gave a line goes to the end and is met again; one that is left alone stays and is not.
    for (const lane of ready) {
      if (leases.length >= limit) return;
      const line = lane.pausedUntil <= now ? lane.waiting[0] : undefined;
      if (line === undefined || line.at > now) {
        if (lane.behindAt <= now && lane.pausedUntil <= now) feeder.hungry(lane);
        else touch(lane);
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
      ready.delete(lane);
      ready.add(lane);
    }
  }

  function lend(lane: Lane, line: Line): Lease {
    lane.waiting.shift();
    waiting--;
    leased++;
    line.token = String(++tokens);
    const { subscriptionId, keyId, ordinal, dueAt, generation, cycle, attempts } = line.due;
    return { subscriptionId, keyId, ordinal, dueAt, generation, cycle, attempts, token: line.token };
  }

  function add(due: Due): void {
    const lane = laneOf(due.subscriptionId);
    const known = lane.lines.get(due.ordinal);
    if (known !== undefined) {
      if (known.token !== undefined) return;
      dequeue(lane, known);
      lane.lines.delete(due.ordinal);
      waiting--;
    }
    if (isBehind(lane, due)) {
      leaveToStorage(lane, due);
      return touch(lane);
    }
    hold(lane, due, due.dueAt);
    touch(lane);
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
      if (leases.length >= request.limit && ready.size > 0) bell.ring();
      return leases;
    },

    wake: (signal) => bell.wait(signal),

    extend: (lease) => Promise.resolve(held(lease) !== undefined),

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
      // Cancelled meanwhile: what is committed is committed, and the lease is no more.
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
      hold(lane, line.due, dueAt ?? Math.min(line.due.dueAt, clock.now()));
      unblock(lane);
      touch(lane);
    },

    async pause(subscriptionId, until) {
      const lane = lanes.get(subscriptionId) ?? (until > clock.now() ? laneOf(subscriptionId) : undefined);
      if (lane === undefined) return;
      lane.pausedUntil = until;
      touch(lane);
    },

    async cancel(subscriptionId) {
      const lane = lanes.get(subscriptionId);
      if (lane === undefined) return;
      lanes.delete(subscriptionId);
      ready.delete(lane);
      waiting -= lane.waiting.length;
      leased -= lane.lines.size - lane.waiting.length;
      for (const line of lane.lines.values()) line.token = undefined;
      if (lane.settling > 0) await new Promise<void>((resolve) => void lane.settled.push(resolve));
    },

    sweep: () => feeder.sweep(),

    async depth() {
      const now = clock.now();
      let oldestDueAt: number | undefined;
      for (const lane of lanes.values()) {
        const at = Math.min(lane.waiting[0]?.at ?? Number.POSITIVE_INFINITY, lane.behindAt);
        if (at <= now && (oldestDueAt === undefined || at < oldestDueAt)) oldestDueAt = at;
      }
      return { waiting: Math.max(waiting, (stored?.() ?? 0) - leased), leased, oldestDueAt };
    },

    async close() {
      bell.close();
      await feeder.close();
    },
  };
}
