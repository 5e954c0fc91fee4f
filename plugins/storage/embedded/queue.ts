/**
 * The queue of one process: leases over a window of the due lines. Leases are tokens in memory. They end with the
 * process, and the lines stay in storage.
 */
import { DUE } from "../../../core/model/schema.ts";
import type { Due } from "../../../core/model/delivery.ts";
import { LeaseLostError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, ClaimRequest, Entry, Lease, Queue, RangeOptions } from "../../../core/ports/storage.ts";
import { wakeTimer } from "./wake-timer.ts";
import { createRefill } from "./refill.ts";
import {
  firstAt,
  isBehind,
  leaveInStorage,
  newLine,
  pausedMs,
  settling,
  storedAt,
  type QueueLine,
  type SubscriptionQueue,
} from "./subscription-queue.ts";
import { timeline } from "./timeline.ts";
import { createWindow } from "./window.ts";
import { createWithdraw } from "./withdraw.ts";

/** A subscription queue with fewer lines than this reads more from storage. */
const LOW = 64;
/** How long to wait after a page could not be read, ms. */
const AGAIN_MS = 1_000;

interface QueueDeps {
  readonly range: (prefix: string, options?: RangeOptions) => Promise<readonly Entry[]>;
  /** With `soon` it may wait a few ms for other commits. */
  readonly commit: (changes: readonly Change[], soon?: boolean) => Promise<void>;
  readonly clock: Clock;
  /** Returns how many due lines there are, where the storage keeps count. */
  readonly stored?: () => number | undefined;
  /** Returns the keys of due lines whose commits are under way: they may be readable, and still be lost. */
  readonly unacknowledged?: () => ReadonlySet<string>;
  /** Returns how many keys start with the prefix. */
  readonly count: (prefix: string) => Promise<number>;
  /** Most lines that wait in memory. @default 10_000 */
  readonly window?: number;
}

interface WindowQueue extends Queue {
  /** Ends every wait and every background read. */
  close(): Promise<void>;
}

export function createQueue({
  range,
  commit,
  clock,
  stored,
  unacknowledged,
  count,
  window: size = 10_000,
}: QueueDeps): WindowQueue {
  const time = timeline(clock);
  const timer = wakeTimer(clock, time, (queue) => feeder.woken(queue));
  const { notify } = timer;
  const window = createWindow({ clock, time, size, timer, forgot: () => feeder.forgot() });
  const later = (queue: SubscriptionQueue): void => timer.set(time.now() + AGAIN_MS, queue);
  const feeder = createRefill({ range, unacknowledged, clock, time, window, notify, later });
  const commitOf = settling(commit);
  let leased = 0;
  let tokens = 0;

  /** Leases the line, so that no claim and no page that is read gives it to anybody else. */
  function lend(line: QueueLine): Lease {
    leased++;
    line.token = String(++tokens);
    return { ...line.due, token: line.token };
  }

  function held({ subscriptionId, ordinal, token }: Lease): QueueLine | undefined {
    const line = window.queues.get(subscriptionId)?.lines.get(ordinal);
    return line?.token === token ? line : undefined;
  }

  function endLease(line: QueueLine): void {
    line.queue.lines.delete(line.due.ordinal);
    leased--;
    feeder.moved(line.due);
    if (window.blocked.delete(line.queue)) setImmediate(notify);
  }

  function take({ limit, perSubscription, busy }: ClaimRequest, taken: Map<string, number>, into: Lease[]): void {
    const now = time.now();
    timer.look(now);
    // A queue that gave a line goes to the end and is served again; one that is skipped stays and is not.
    for (const queue of window.ready) {
      if (into.length >= limit) return;
      const open = pausedMs(queue, clock) === 0;
      const line = open ? queue.waiting[0] : undefined;
      if (line === undefined || line.at > now) {
        if (open && storedAt(queue, time) <= now) feeder.wantsMore(queue);
        else window.touch(queue);
        continue;
      }
      const own = taken.get(queue.id) ?? 0;
      if ((busy.get(queue.id) ?? 0) + own >= perSubscription) {
        window.blocked.add(queue);
        continue;
      }
      taken.set(queue.id, own + 1);
      window.take(line);
      into.push(lend(line));
      if (queue.waiting.length < LOW && queue.behind !== undefined) feeder.wantsMore(queue);
      window.blocked.delete(queue);
      window.ready.delete(queue);
      window.ready.add(queue);
    }
  }

  function add(due: Due): void {
    const queue = window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known !== undefined) {
      if (known.token !== undefined) return;
      window.take(known);
      queue.lines.delete(due.ordinal);
    }
    if (isBehind(queue, due)) leaveInStorage(queue, due);
    else window.hold(queue, due, time.at(due));
    window.touch(queue);
  }

  /** Keeps the subscription queue from claims for so long from now on; with 0 no longer. */
  function rest(ends: "pauseEnds" | "holdEnds", subscriptionId: string, ms: number): void {
    const queue = ms > 0 ? window.queueOf(subscriptionId) : window.queues.get(subscriptionId);
    if (queue === undefined) return;
    queue[ends] = ms > 0 ? clock.monotonic() + ms : 0;
    window.touch(queue);
  }

  return {
    async settle(lease, changes, { next, keep } = {}) {
      const line = held(lease);
      if (line === undefined || line.settling) throw new LeaseLostError();
      line.settling = true;
      // Nobody waits for a plain end, unless something waits for the room that it makes.
      const soon = next === undefined && keep === undefined && line.due.order === undefined && window.ready.size === 0;
      try {
        await commitOf(line.queue, changes, soon);
      } finally {
        line.settling = false;
      }
      // Cancelled meanwhile: the commit stands, and the lease is lost.
      if (line.token !== lease.token) return;
      if (keep !== undefined) {
        feeder.moved(line.due);
        line.due = keep;
        // It waits, so that another of its subscription may go on.
        if (window.blocked.delete(line.queue)) setImmediate(notify);
        return;
      }
      endLease(line);
      if (next !== undefined) add(next);
    },

    withdraw: createWithdraw({ commit: commitOf, window, time, lend, end: endLease, add }),

    async release(lease, dueAt) {
      const line = held(lease);
      if (line === undefined) return;
      const { queue, due } = line;
      queue.lines.delete(due.ordinal);
      leased--;
      window.hold(queue, due, dueAt === undefined ? Math.min(time.at(due), time.now()) : time.soon(dueAt));
      if (window.blocked.delete(queue)) setImmediate(notify);
      window.touch(queue);
    },

    async cancel(subscriptionId) {
      const queue = window.queues.get(subscriptionId);
      if (queue === undefined) return;
      window.drop(queue);
      leased -= queue.lines.size - queue.waiting.length;
      for (const line of queue.lines.values()) line.token = undefined;
      if (queue.settling > 0) await new Promise<void>((resolve) => void queue.settled.push(resolve));
    },

    add(dues) {
      for (const due of dues) add(due);
    },

    lend(due) {
      const now = time.now();
      timer.look(now);
      // Those that have enough under way wait for their own deliveries, not for a claim.
      if (window.ready.size > window.blocked.size || !feeder.knowsAll()) return undefined;
      const queue = window.queueOf(due.subscriptionId);
      const first = Math.min(firstAt(queue, time), storedAt(queue, time));
      if (first <= now || time.at(due) > now || pausedMs(queue, clock) > 0) return undefined;
      // A page that was read since the commit has brought it.
      if (queue.lines.has(due.ordinal)) return undefined;
      const line = newLine(queue, due, now);
      queue.lines.set(due.ordinal, line);
      return lend(line);
    },

    empty: () => window.ready.size === 0 && feeder.knowsAll(),

    async claim(request) {
      timer.reset();
      const claimed: Lease[] = [];
      const taken = new Map<string, number>();
      take(request, taken, claimed);
      feeder.refill();
      // What a page brings does not wait for the pages of all others.
      for (let page; claimed.length === 0 && (page = feeder.nextPage()) !== undefined;) {
        await page;
        take(request, taken, claimed);
      }
      if (claimed.length >= request.limit && window.ready.size > 0) notify();
      return claimed;
    },

    wake: (signal) => timer.wait(signal),

    extend: (lease) => held(lease) !== undefined,

    pause: async (subscriptionId, ms) => rest("pauseEnds", subscriptionId, ms),

    hold: async (subscriptionId, ms) => rest("holdEnds", subscriptionId, ms),

    sweep: () => feeder.sweep(),

    async depth() {
      const now = time.now();
      let oldest: number | undefined;
      let all = feeder.knowsAll();
      for (const queue of window.queues.values()) {
        const at = firstAt(queue, time);
        // What is paused waits by intent: it is not late.
        if (at <= now && pausedMs(queue, clock) === 0 && (oldest === undefined || at < oldest)) oldest = at;
        if (queue.behind !== undefined) all = false;
      }
      const known = window.waiting();
      const oldestDueAt = oldest === undefined ? undefined : oldest + time.ahead();
      return { waiting: all ? known : Math.max(known, (stored?.() ?? 0) - leased), leased, oldestDueAt };
    },

    async pending(subscriptionIds) {
      let lines = 0;
      for (const id of subscriptionIds) lines += await count(DUE.under({ subscriptionId: id }));
      return lines;
    },

    async close() {
      timer.close();
      await feeder.close();
    },
  };
}
