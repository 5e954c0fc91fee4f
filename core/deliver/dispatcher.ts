/** Claims due deliveries while there are slots for them, and takes what comes straight from its acceptance. */
import { setMaxListeners } from "node:events";
import { within } from "../lib/within.ts";
import type { Queue } from "../ports/storage.ts";
import type { HandOver } from "./hand-over.ts";
import type { Slots } from "./slots.ts";
import { UnderWay, type UnderWayDeps } from "./under-way.ts";

/** How long the dispatcher waits when the queue itself fails, ms. */
const QUEUE_REST_MS = 500;
const BATCH = 128;
/** The reason why a wait ended. One shared error, because an abort without a reason makes a DOMException each time. */
const OVER = new Error("over");

const nextTurn = (): Promise<void> => new Promise((turned) => void setImmediate(turned));

interface DispatcherDeps extends UnderWayDeps {
  readonly queue: Queue;
  readonly slots: Slots;
  readonly perSubscription: number;
  /** Absent: every delivery is claimed. */
  readonly handOver?: Pick<HandOver, "open">;
}

export function createDispatcher(deps: DispatcherDeps) {
  const { queue, slots, perSubscription, handOver, clock, log } = deps;
  const claiming = new AbortController();
  setMaxListeners(0, claiming.signal);
  const underWay = new UnderWay(deps, claiming.signal);
  const renewing = new AbortController();
  let loop: Promise<void> | undefined;

  async function work(): Promise<void> {
    while (!claiming.signal.aborted) {
      try {
        const before = slots.turnover();
        // A slot given back during the claim may be the one that it lacked, so claim again.
        if (!(await claim()) && slots.turnover() === before) await idle();
      } catch (error) {
        log.error("the queue failed", { error: String(error) });
        await clock.sleep(clock.now() + QUEUE_REST_MS, claiming.signal).catch(() => undefined);
      }
    }
  }

  /** Claims as many deliveries as have a slot, and begins them. @returns false when there were none */
  async function claim(): Promise<boolean> {
    const free = slots.free();
    if (free === 0) return false;
    const leases = await queue.claim({ limit: Math.min(free, BATCH), perSubscription, busy: slots.busy });
    for (const lease of leases) underWay.take(lease, slots.admit(lease));
    underWay.begin();
    while (underWay.waits) await nextTurn();
    return leases.length > 0;
  }

  /** Waits until something may be claimed: a slot was given back, or the queue has changed. */
  async function idle(): Promise<void> {
    // A stop came during the claim: an aborted signal calls no listener that is added later.
    if (claiming.signal.aborted) return;
    // No slot helps while nothing waits.
    if (queue.empty?.() === true) await queue.wake(claiming.signal);
    else await slotOrWake();
    // Collects what this turn of the event loop adds: one claim for many costs as much as one for a single delivery.
    await nextTurn();
  }

  async function slotOrWake(): Promise<void> {
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
  }

  return {
    /** Returns how many deliveries are under way, waits included. */
    underWay: (): number => underWay.count,
    /** Aborts this node's attempts of a subscription, and resolves when they have ended. */
    abort: (subscriptionId: string): Promise<void> => underWay.abort(subscriptionId),
    start(): void {
      if (loop !== undefined) return;
      loop = work();
      underWay.renew(renewing.signal).catch(() => undefined);
      handOver?.open({ slots, underWay });
    },
    /** Stops claiming. Resolves when nothing is under way; after `graceMs` it aborts the rest, which goes back uncounted. */
    async stop(graceMs: number): Promise<void> {
      handOver?.open();
      claiming.abort();
      await loop;
      await within(clock, graceMs, underWay.drained());
      await underWay.abortAll();
      renewing.abort();
    },
  };
}
