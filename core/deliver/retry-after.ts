/**
 * How long receivers have asked for rest: their own `Retry-After`, as this node heard it. The queue claims nothing of them
 * meanwhile; this also stops what was claimed before. Losing it loses nothing.
 */
import { setNewest } from "../model/bounded-map.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";

export interface RetryAfter {
  /** It rests for so long from now; the latest word counts. */
  note(subscriptionId: string, ms: number): void;
  /** How long an attempt must wait, ms; `undefined`: it may be made now. */
  admit(sub: Pick<Subscription, "id">): number | undefined;
  /** How long it still lasts, ms; 0 when there is none. */
  leftMs(subscriptionId: string): number;
  /** It begins afresh: re-enabled. */
  forget(subscriptionId: string): void;
}

/** Receivers that rest at once; beyond it the oldest word goes. */
const HELD = 10_000;

export function createRetryAfter(clock: Pick<Clock, "monotonic">): RetryAfter {
  /** By the monotonic clock, when each ends. */
  const rests = new Map<string, number>();

  function leftMs(subscriptionId: string): number {
    const left = (rests.get(subscriptionId) ?? 0) - clock.monotonic();
    if (left > 0) return left;
    rests.delete(subscriptionId);
    return 0;
  }

  return {
    leftMs,
    admit({ id }) {
      const left = leftMs(id);
      return left > 0 ? left : undefined;
    },
    note(subscriptionId, ms) {
      setNewest(rests, subscriptionId, clock.monotonic() + ms, HELD);
    },
    forget: (subscriptionId) => void rests.delete(subscriptionId),
  };
}
