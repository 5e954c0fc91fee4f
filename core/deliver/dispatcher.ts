/** The worker: claims what is due, runs each delivery in a slot, and gives back what it cannot finish. */
import { within } from "../model/within.ts";
import { setMaxListeners } from "node:events";
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";
import type { Deliver } from "./deliveries.ts";
import { createLeaseRenewal } from "./lease-renewal.ts";
import type { Slot, Slots } from "./slots.ts";

/** How long a delivery rests after a fault of ours, ms. */
const FAULT_REST_MS = 5_000;
/** How long the worker rests when the queue itself fails, ms. */
const QUEUE_REST_MS = 500;
const BATCH = 128;
/** Why a wait ended. Given, because an abort without a reason makes a DOMException each time. */
const OVER = new Error("over");

export interface Dispatcher {
  start(): void;
  /** Claims nothing more; resolves when nothing is under way, after `graceMs` by aborting the rest, which goes back uncounted. */
  stop(graceMs: number): Promise<void>;
  /** Aborts what this node has under way for a subscription, and resolves when it has ended. */
  abort(subscriptionId: string): Promise<void>;
  /** Deliveries under way, waits included. */
  underWay(): number;
}

/** All that is under way for one subscription. One signal serves them all: making one an attempt costs more than a hash. */
interface Lane {
  readonly abort: AbortController;
  running: number;
  /** To be called when nothing of it runs any more. */
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
  const lanes = new Map<string, Lane>();
  const renewal = createLeaseRenewal(queue, clock, log);
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
        for (const lease of leases) begin(lease);
        // A slot that was given back while the claim looked is news: it may have been what it found wanting.
        if (leases.length === 0 && slots.given() === given) await idle();
      } catch (error) {
        log.error("the queue failed", { error: String(error) });
        await clock.sleep(clock.now() + QUEUE_REST_MS, claiming.signal).catch(() => undefined);
      }
    }
  }

  /** Until something may be claimed: a slot was given back, or the queue has news. */
  async function idle(): Promise<void> {
    // A stop that came while the claim was under way: an aborted signal calls no listener that is added later.
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
    // What else this turn of the event loop brings is claimed with it: a claim costs as much for one as for many.
    await new Promise((turned) => setImmediate(turned));
  }

  function begin(lease: Lease): void {
    const lane = laneOf(lease.subscriptionId);
    total++;
    lane.running++;
    renewal.began(lease);
    const admitted = slots.admit(lease);
    void (typeof admitted === "number" ? turnAway(lease, admitted, lane) : finish(lease, admitted, lane));
  }

  function end(lease: Lease, lane: Lane): void {
    const { subscriptionId } = lease;
    renewal.ended(lease);
    total--;
    lane.running--;
    if (lane.running > 0) return;
    if (lanes.get(subscriptionId) === lane) lanes.delete(subscriptionId);
    for (const tell of lane.ended.splice(0)) tell();
  }

  const quiet = (lane: Lane): Promise<void> =>
    lane.running === 0 ? Promise.resolve() : new Promise((resolve) => void lane.ended.push(resolve));

  function laneOf(subscriptionId: string): Lane {
    const known = lanes.get(subscriptionId);
    if (known !== undefined) return known;
    const lane: Lane = { abort: new AbortController(), running: 0, ended: [] };
    setMaxListeners(0, lane.abort.signal);
    lanes.set(subscriptionId, lane);
    return lane;
  }

  /** Never rejects. */
  async function finish(lease: Lease, slot: Slot, lane: Lane): Promise<void> {
    try {
      await deliver(lease, slot, lane.abort.signal, claiming.signal);
    } catch (error) {
      if (!lane.abort.signal.aborted) {
        const fault = error instanceof StorageError ? error.fault : String(error);
        log.error("a delivery went back", {
          subscriptionId: lease.subscriptionId,
          ordinal: lease.ordinal,
          error: fault,
        });
      }
      await giveBack(lease, lane.abort.signal.aborted ? undefined : clock.now() + FAULT_REST_MS);
    } finally {
      end(lease, lane);
    }
  }

  /** There is no slot for it now: it goes back as it was. Never rejects. */
  async function turnAway(lease: Lease, holdMs: number, lane: Lane): Promise<void> {
    try {
      if (holdMs > 0) await queue.hold(lease.subscriptionId, holdMs);
    } catch (error) {
      log.warn("a subscription was not held back", { subscriptionId: lease.subscriptionId, error: String(error) });
    }
    await giveBack(lease, undefined);
    end(lease, lane);
  }

  async function giveBack(lease: Lease, dueAt: number | undefined): Promise<void> {
    try {
      await queue.release(lease, dueAt);
    } catch (error) {
      // Storage still has the line: the lease lapses, or the next start finds it.
      log.warn("a lease was not given back", { subscriptionId: lease.subscriptionId, error: String(error) });
    }
  }

  async function abort(lane: Lane): Promise<void> {
    lane.abort.abort(new Error("the delivery was called off"));
    await quiet(lane);
  }

  return {
    underWay: () => total,
    start() {
      renewal.start();
      loop ??= work();
    },
    async abort(subscriptionId) {
      const lane = lanes.get(subscriptionId);
      if (lane === undefined) return;
      lanes.delete(subscriptionId);
      await abort(lane);
    },
    async stop(graceMs) {
      claiming.abort();
      await loop;
      const all = [...lanes.values()];
      await within(clock, graceMs, Promise.all(all.map(quiet)));
      await Promise.all(all.map(abort));
      renewal.stop();
    },
  };
}
