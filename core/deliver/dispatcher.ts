/** Claims due deliveries, runs each in a slot, and gives back what it cannot finish. */
import { setNewest } from "../lib/bounded-map.ts";
import { within } from "../lib/within.ts";
import { setMaxListeners } from "node:events";
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";
import type { Deliver } from "./deliveries.ts";
import type { Slot, Slots } from "./slots.ts";

/** How long a delivery waits after a fault of ours, ms. */
const FAULT_REST_MS = 5_000;
/**
 * After so many times in a row that the storage was broken for it, a delivery waits for twice as long each time, up to the
 * longest, ms: its request may have gone out, and would be made every few seconds while its result can never be stored.
 */
const SHORT_RESTS = 5;
const LONGEST_REST_MS = 900_000;
/** Most deliveries of which that is counted. */
const BROKEN_HELD = 10_000;
/** How long the dispatcher waits when the queue itself fails, ms. */
const QUEUE_REST_MS = 500;
const BATCH = 128;
/**
 * How long one turn of the event loop may begin deliveries, ms. Signing and sending a full batch takes many times as
 * long, and whatever else the loop has to do, such as reading another receiver's answer, would wait for all of it.
 */
const TURN_MS = 1;
/** The reason why a wait ended. One shared error, because an abort without a reason makes a DOMException each time. */
const OVER = new Error("over");

const nextTurn = (): Promise<void> => new Promise((turned) => void setImmediate(turned));

interface Dispatcher {
  start(): void;
  /** Stops claiming. Resolves when nothing is under way; after `graceMs` it aborts the rest, which goes back uncounted. */
  stop(graceMs: number): Promise<void>;
  /** Aborts this node's attempts of a subscription, and resolves when they have ended. */
  abort(subscriptionId: string): Promise<void>;
  /** Returns how many deliveries are under way, waits included. */
  underWay(): number;
}

/**
 * The deliveries under way of one subscription. They share one abort signal, because a signal per attempt costs more
 * than a hash.
 */
interface SubscriptionRuns {
  readonly abort: AbortController;
  running: number;
  /** Called when none of them runs any more. */
  readonly ended: (() => void)[];
}

export function createDispatcher(deps: {
  readonly queue: Queue;
  readonly slots: Slots;
  readonly perSubscription: number;
  readonly deliver: Deliver;
  readonly clock: Clock;
  readonly log: Log;
}): Dispatcher {
  const { queue, slots, perSubscription, deliver, clock, log } = deps;
  const active = new Map<string, SubscriptionRuns>();
  /** How often in a row the storage was broken for a delivery, by its name. */
  const broken = new Map<string, number>();
  const renewal = createLeaseRenewal(queue, clock, log);
  const giveBack = createGiveBack(queue, log);
  const claiming = new AbortController();
  setMaxListeners(0, claiming.signal);
  let loop: Promise<void> | undefined;
  let total = 0;

  async function work(): Promise<void> {
    while (!claiming.signal.aborted) {
      try {
        const free = slots.free();
        const given = slots.given();
        const leases =
          free === 0 ? [] : await queue.claim({ limit: Math.min(free, BATCH), perSubscription, busy: slots.busy });
        if (free > 0) giveBack.again();
        await beginAll(leases);
        // A slot given back during the claim may be the one that it lacked, so claim again.
        if (leases.length === 0 && slots.given() === given) await idle();
      } catch (error) {
        log.error("the queue failed", { error: String(error) });
        await clock.sleep(clock.now() + QUEUE_REST_MS, claiming.signal).catch(() => undefined);
      }
    }
  }

  /** Waits until something may be claimed: a slot was given back, or the queue has changed. */
  async function idle(): Promise<void> {
    // A stop came during the claim: an aborted signal calls no listener that is added later.
    if (claiming.signal.aborted) return;
    const over = new AbortController();
    const stop = (): void => over.abort(OVER);
    claiming.signal.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race(
        slots.free() === 0 ? [slots.freed(over.signal)] : [queue.wake(over.signal), slots.freed(over.signal)],
      );
    } finally {
      claiming.signal.removeEventListener("abort", stop);
      over.abort(OVER);
    }
    // Collects what this turn of the event loop adds: one claim for many costs as much as one for a single delivery.
    await nextTurn();
  }

  /** Takes all leases over at once, so that stopping and aborting know them, and begins them over as many turns as needed. */
  async function beginAll(leases: readonly Lease[]): Promise<void> {
    const taken = leases.map(take);
    let since = clock.monotonic();
    for (const begin of taken) {
      if (clock.monotonic() - since >= TURN_MS) {
        await nextTurn();
        since = clock.monotonic();
      }
      begin();
    }
  }

  /** Counts a claimed delivery as under way. @returns what begins it, to be called once */
  function take(lease: Lease): () => void {
    const runs = runsOf(lease.subscriptionId);
    total++;
    runs.running++;
    renewal.began(lease);
    const admitted = slots.admit(lease);
    return () => void (typeof admitted === "number" ? turnAway(lease, admitted, runs) : finish(lease, admitted, runs));
  }

  function end(lease: Lease, runs: SubscriptionRuns): void {
    const { subscriptionId } = lease;
    renewal.ended(lease);
    total--;
    runs.running--;
    if (runs.running > 0) return;
    if (active.get(subscriptionId) === runs) active.delete(subscriptionId);
    for (const resolve of runs.ended.splice(0)) resolve();
  }

  const drained = (runs: SubscriptionRuns): Promise<void> =>
    runs.running === 0 ? Promise.resolve() : new Promise((resolve) => void runs.ended.push(resolve));

  function runsOf(subscriptionId: string): SubscriptionRuns {
    const known = active.get(subscriptionId);
    if (known !== undefined) return known;
    const runs: SubscriptionRuns = { abort: new AbortController(), running: 0, ended: [] };
    setMaxListeners(0, runs.abort.signal);
    active.set(subscriptionId, runs);
    return runs;
  }

  /** Returns how long a delivery waits after this fault, ms. */
  function restAfter(error: unknown, lease: Lease): number {
    if (!(error instanceof StorageError) || error.fault !== "broken") return FAULT_REST_MS;
    const name = nameOf(lease);
    const count = (broken.get(name) ?? 0) + 1;
    setNewest(broken, name, count, BROKEN_HELD);
    return Math.min(FAULT_REST_MS * 2 ** Math.max(0, count - SHORT_RESTS), LONGEST_REST_MS);
  }

  /** Runs the delivery. Never rejects. */
  async function finish(lease: Lease, slot: Slot, runs: SubscriptionRuns): Promise<void> {
    try {
      await deliver(lease, slot, runs.abort.signal, claiming.signal);
      if (broken.size > 0) broken.delete(nameOf(lease));
    } catch (error) {
      if (!runs.abort.signal.aborted) {
        const fault = error instanceof StorageError ? error.fault : String(error);
        log.error("a delivery went back to the queue", {
          subscriptionId: lease.subscriptionId,
          ordinal: lease.ordinal,
          error: fault,
        });
      }
      await giveBack.give(lease, runs.abort.signal.aborted ? undefined : clock.now() + restAfter(error, lease));
    } finally {
      end(lease, runs);
    }
  }

  /** Gives back a delivery that has no slot now, unchanged. Never rejects. */
  async function turnAway(lease: Lease, holdMs: number, runs: SubscriptionRuns): Promise<void> {
    try {
      if (holdMs > 0) await queue.hold(lease.subscriptionId, holdMs);
    } catch (error) {
      log.warn("a subscription could not be held back in the queue", {
        subscriptionId: lease.subscriptionId,
        error: String(error),
      });
    }
    await giveBack.give(lease, undefined);
    end(lease, runs);
  }

  async function abort(runs: SubscriptionRuns): Promise<void> {
    runs.abort.abort(new Error("the delivery was aborted"));
    await drained(runs);
  }

  return {
    underWay: () => total,
    start() {
      renewal.start();
      loop ??= work();
    },
    async abort(subscriptionId) {
      const runs = active.get(subscriptionId);
      if (runs === undefined) return;
      active.delete(subscriptionId);
      await abort(runs);
    },
    async stop(graceMs) {
      claiming.abort();
      await loop;
      const all = [...active.values()];
      await within(clock, graceMs, Promise.all(all.map(drained)));
      await Promise.all(all.map(abort));
      renewal.stop();
    },
  };
}

const nameOf = ({ subscriptionId, ordinal }: Lease): string => `${subscriptionId} ${ordinal}`;

/** Gives leases back unchanged, and once more when the queue could not take them: until a lease lapses nobody else sends. */
function createGiveBack(queue: Pick<Queue, "release">, log: Log) {
  const kept = new Map<Lease, number | undefined>();

  async function released(lease: Lease, dueAt: number | undefined): Promise<boolean> {
    try {
      await queue.release(lease, dueAt);
      return true;
    } catch (error) {
      log.warn("a lease could not be given back", { subscriptionId: lease.subscriptionId, error: String(error) });
      return false;
    }
  }

  return {
    /** Gives one back; `dueAt` is when it is due again, `undefined`: as before. Never rejects. */
    async give(lease: Lease, dueAt: number | undefined): Promise<void> {
      if (!(await released(lease, dueAt))) kept.set(lease, dueAt);
    },
    /** Tries those once more that the queue could not take. To be called when the queue has just answered. */
    again(): void {
      if (kept.size === 0) return;
      const leases = [...kept];
      kept.clear();
      // Storage still has the line: what fails now lapses, or the next start finds it.
      for (const [lease, dueAt] of leases) void released(lease, dueAt);
    },
  };
}

/**
 * Renews leases: one call from time to time keeps everything that is under way for long on this node. Does nothing where
 * leases last as long as the process.
 */
function createLeaseRenewal(queue: Pick<Queue, "renewal">, clock: Clock, log: Log) {
  const { renewal } = queue;
  const underWay = new Set<Lease>();
  const stopping = new AbortController();
  let running = false;

  async function run(everyMs: number): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + everyMs, stopping.signal);
      if (underWay.size === 0) continue;
      try {
        await renewal?.renew(underWay);
      } catch (error) {
        // The next round tries again, before the leases lapse.
        log.warn("leases could not be renewed", { error: String(error) });
      }
    }
  }

  return {
    /** Marks a delivery as under way until `ended`. */
    began: (lease: Lease) => void (renewal !== undefined && underWay.add(lease)),
    ended: (lease: Lease) => void underWay.delete(lease),
    start(): void {
      if (renewal === undefined || running) return;
      running = true;
      run(renewal.everyMs).catch(() => undefined);
    },
    /** Call it when nothing is under way any more. */
    stop: () => stopping.abort(),
  };
}
