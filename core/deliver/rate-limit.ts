/**
 * Applies a subscription's own `rateLimit` with bottleneck. It refuses and never queues: a refused delivery goes back
 * with a later due time, so that nothing sleeps under a lease.
 */
import { setNewest } from "../model/bounded-map.ts";
import Bottleneck from "bottleneck";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import { createPacer, type Pacer } from "../records/pacer.ts";

export interface RateLimit {
  /** Returns how long an attempt must wait, ms; `undefined`: it may be made now. */
  admit(sub: Pick<Subscription, "id" | "rateLimit">): MaybePromise<number | undefined>;
}

/** Subscriptions whose rate is remembered. */
const HELD = 10_000;

/** @param share how many limiters share a rate: each keeps to its part of it */
export function createRateLimit(clock: Pick<Clock, "now" | "monotonic">, share = 1): RateLimit {
  const held = new Map<string, { readonly perSecond: number; readonly pacer: Pacer }>();

  function pacerOf(id: string, perSecond: number): Pacer {
    const known = held.get(id);
    if (known?.perSecond === perSecond) return known.pacer;
    const minTime = (1_000 * share) / perSecond;
    const pacer = createPacer(clock, { minTime, highWater: 0, strategy: Bottleneck.strategy.OVERFLOW });
    setNewest(held, id, { perSecond, pacer }, HELD);
    return pacer;
  }

  async function ask(id: string, perSecond: number): Promise<number | undefined> {
    const passed = await pacerOf(id, perSecond).schedule(() => Promise.resolve(true));
    return passed === undefined ? Math.max(1, Math.ceil((1_000 * share) / perSecond)) : undefined;
  }

  return {
    admit: ({ id, rateLimit }) => (rateLimit === undefined ? undefined : ask(id, rateLimit.perSecond)),
  };
}
