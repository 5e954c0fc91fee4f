/** Applies a `rateLimit` with bottleneck, which never queues: what is refused goes back, due later. */
import { setNewest } from "../lib/bounded-map.ts";
import Bottleneck from "bottleneck";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import { createPacer, type Pacer } from "../records/pacer.ts";

export type RateLimit = ReturnType<typeof createRateLimit>;

/** Subscriptions whose rate is remembered. */
const HELD = 10_000;
/** How often a second bottleneck is asked at most. It passes no more than some hundred jobs a second, each at its turn of the loop. */
const TURNS = 100;

interface Held {
  readonly perSecond: number;
  readonly pacer: Pacer;
  /** Attempts that one turn lets through. */
  readonly many: number;
  /** How long a turn lasts, ms. */
  readonly turnMs: number;
  /** Attempts that the current turn still lets through. */
  left: number;
  /** The request for the next turn, while it is under way: attempts that come meanwhile wait for the same one. */
  asked?: Promise<unknown> | undefined;
}

export function createRateLimit(clock: Pick<Clock, "now" | "monotonic">) {
  const held = new Map<string, Held>();

  function heldOf(id: string, perSecond: number): Held {
    const known = held.get(id);
    if (known?.perSecond === perSecond) return known;
    const many = Math.ceil(perSecond / TURNS);
    const turnMs = (many * 1_000) / perSecond;
    const pacer = createPacer(clock, { minTime: turnMs, highWater: 0, strategy: Bottleneck.strategy.OVERFLOW });
    const made: Held = { perSecond, pacer, many, turnMs, left: 0 };
    setNewest(held, id, made, HELD);
    return made;
  }

  async function begin(one: Held): Promise<void> {
    try {
      if ((await one.pacer.schedule(() => Promise.resolve(true))) === true) one.left = one.many;
    } finally {
      one.asked = undefined;
    }
  }

  async function nextTurn(one: Held): Promise<number | undefined> {
    await (one.asked ??= begin(one));
    if (one.left === 0) return Math.max(1, Math.ceil(one.turnMs));
    one.left--;
    return undefined;
  }

  return {
    /** Returns how long an attempt must wait, ms; `undefined`: it may be made now. */
    admit({ id, rateLimit }: Pick<Subscription, "id" | "rateLimit">): MaybePromise<number | undefined> {
      if (rateLimit === undefined) return undefined;
      const one = heldOf(id, rateLimit.perSecond);
      if (one.left === 0) return nextTurn(one);
      one.left--;
      return undefined;
    },
  };
}
