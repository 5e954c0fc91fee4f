/**
 * Applies a subscription's own `rateLimit` with bottleneck. It refuses and never queues: a refused delivery goes back
 * with a later due time, so that nothing sleeps under a lease.
 */
import { setNewest } from "../model/bounded-map.ts";
import Bottleneck from "bottleneck";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";

export interface RateLimit {
  /** Returns how long an attempt must wait, ms; `undefined`: it may be made now. */
  admit(sub: Subscription): MaybePromise<number | undefined>;
  dispose(): Promise<void>;
}

/** Subscriptions whose rate is remembered. */
const HELD = 10_000;

/** @param share how many limiters share a rate: each keeps to its part of it */
export function createRateLimit(share = 1): RateLimit {
  const held = new Map<string, { readonly perSecond: number; readonly limiter: Bottleneck }>();

  function limiterOf(id: string, perSecond: number): Bottleneck {
    const known = held.get(id);
    if (known?.perSecond === perSecond) return known.limiter;
    const limiter = new Bottleneck({
      minTime: (1_000 * share) / perSecond,
      highWater: 0,
      strategy: Bottleneck.strategy.OVERFLOW,
    });
    setNewest(held, id, { perSecond, limiter }, HELD);
    return limiter;
  }

  async function ask(id: string, perSecond: number): Promise<number | undefined> {
    try {
      await limiterOf(id, perSecond).schedule(() => Promise.resolve());
      return undefined;
    } catch (error) {
      if (!(error instanceof Bottleneck.BottleneckError)) throw error;
      return Math.max(1, Math.ceil((1_000 * share) / perSecond));
    }
  }

  return {
    admit: (sub) => (sub.rateLimit === undefined ? undefined : ask(sub.id, sub.rateLimit.perSecond)),
    async dispose() {
      await Promise.all([...held.values()].map(({ limiter }) => limiter.disconnect()));
      held.clear();
    },
  };
}
