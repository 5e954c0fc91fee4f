/**
 * The queue of one process: leases over a window of the due lines. Leases are tokens in memory. They end with the
 * process, and the lines stay in storage.
 */
import { LeaseLostError } from "../../../core/model/errors.ts";
import { DUE } from "../../../core/model/schema.ts";
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
import { createWithdraw } from "./withdraw.ts";

/** A subscription queue with fewer lines than this reads more from storage. */
const LOW = 64;
/** How long to wait after a page could not be read, ms. */
const AGAIN_MS = 1_000;

interface QueueDeps {
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

interface WindowQueue extends Queue {
  /** Ends every wait and every background read. */
  close(): Promise<void>;
}

export function createQueue({ range, commit, clock, stored, count, window: size = 10_000 }: QueueDeps): WindowQueue {
  const time = timeline(clock);
  const timer = wakeTimer(clock, time, (queue) => feeder.woken(queue));
  const window = createWindow({
    clock,
    time,
    size,
    timer,
    forgot: () => feeder.forgot(),
  });
  const feeder = createRefill({
    range,
    clock,
    time,
    window,
    notify: timer.notify,
    later: (queue) => timer.set(time.now() + AGAIN_MS, queue),
  });
  let leased = 0;
  let tokens = 0;

  function held(lease: Lease): { readonly queue: SubscriptionQueue; readonly line: QueueLine } | undefined {
    const queue = window.queues.get(lease.subscriptionId);
    const line = queue?.lines.get(lease.ordinal);
    return queue !== undefined && line !== undefined && line.token === lease.token ? { queue, line } : undefined;
  }

  function endLease(queue: SubscriptionQueue, line: QueueLine): void {
    queue.lines.delete(line.due.ordinal);
    leased--;
    feeder.moved(line.due);
    unblock(queue);
  }

  /** A delivery of the subscription queue is no longer under way, or soon will not be. */
  function unblock(queue: SubscriptionQueue): void {
    if (!queue.blocked) return;
    queue.blocked = false;
    setImmediate(timer.notify);
  }

  function take({ limit, perSubscription, busy }: ClaimRequest, taken: Map<string, number>, leases: Lease[]): void {
    const now = time.now();
    timer.look(now);
    // A queue that gave a line goes to the end and is served again; one that is skipped stays and is not.
    for (const queue of window.ready) {
      if (leases.length >= limit) return;
      const open = pausedMs(queue, clock) === 0;
      const line = open ? queue.waiting[0] : undefined;
      if (line === undefined || line.at > now) {
        if (open && storedAt(queue, time) <= now) feeder.wantsMore(queue);
        else window.touch(queue);
        continue;
      }
      const own = taken.get(queue.id) ?? 0;
      if ((busy.get(queue.id) ?? 0) + own >= perSubscription) {
        queue.blocked = true;
        continue;
      }
      taken.set(queue.id, own + 1);
      leases.push(lend(queue, line));
      if (queue.waiting.length < LOW && queue.behind !== undefined) feeder.wantsMore(queue);
      window.ready.delete(queue);
      window.ready.add(queue);
    }
  }

  function lend(queue: SubscriptionQueue, line: QueueLine): Lease {
    window.take(queue, line);
    return { ...line.due, token: block(line) };
  }

  /** Keeps claims away from the line. @returns the token of its lease */
  function block(line: QueueLine): string {
    leased++;
    return (line.token = String(++tokens));
  }

  function add(due: Due): void {
    const queue = window.queueOf(due.subscriptionId);
    const known = queue.lines.get(due.ordinal);
    if (known !== undefined) {
      if (known.token !== undefined) return;
      window.take(queue, known);
      queue.lines.delete(due.ordinal);
    }
    if (isBehind(queue, due)) leaveToStorage(queue, due);
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
    add(dues) {
      for (const due of dues) add(due);
    },

    async claim(request) {
      timer.reset();
      const leases: Lease[] = [];
      const taken = new Map<string, number>();
      take(request, taken, leases);
      feeder.refill();
      // What a page brings does not wait for the pages of all others.
      for (let page; leases.length === 0 && (page = feeder.nextPage()) !== undefined;) {
        await page;
        take(request, taken, leases);
      }
      if (leases.length >= request.limit && window.ready.size > 0) timer.notify();
      return leases;
    },

    wake: (signal) => timer.wait(signal),

    extend: (lease) => held(lease) !== undefined,

    async settle(lease, changes, then) {
      const own = held(lease);
      if (own === undefined || own.line.settling) throw new LeaseLostError();
      const { queue, line } = own;
      line.settling = true;
      queue.settling++;
      try {
        await commit(changes);
      } finally {
        line.settling = false;
        queue.settling--;
        if (queue.settling === 0 && queue.settled.length > 0) for (const resolve of queue.settled.splice(0)) resolve();
      }
      // Cancelled meanwhile: the commit stands, and the lease is lost.
      if (line.token !== lease.token) return;
      if (then?.keep !== undefined) {
        feeder.moved(line.due);
        line.due = then.keep;
        return unblock(queue);
      }
      endLease(queue, line);
      if (then?.next !== undefined) add(then.next);
    },

    withdraw: createWithdraw({ commit, window, time, block, unblock: endLease, add }),

    async release(lease, dueAt) {
      const own = held(lease);
      if (own === undefined) return;
      const { queue, line } = own;
      queue.lines.delete(line.due.ordinal);
      leased--;
      window.hold(queue, line.due, dueAt === undefined ? Math.min(time.at(line.due), time.now()) : time.soon(dueAt));
      unblock(queue);
      window.touch(queue);
    },

    pause: async (subscriptionId, ms) => rest("pauseEnds", subscriptionId, ms),

    hold: async (subscriptionId, ms) => rest("holdEnds", subscriptionId, ms),

    async cancel(subscriptionId) {
      const queue = window.queues.get(subscriptionId);
      if (queue === undefined) return;
      window.drop(queue);
      leased -= queue.lines.size - queue.waiting.length;
      for (const line of queue.lines.values()) line.token = undefined;
      if (queue.settling > 0) await new Promise<void>((resolve) => void queue.settled.push(resolve));
    },

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
