/**
 * Remembers how long receivers asked to be left alone (`Retry-After`), whichever node they answered. The queue claims
 * nothing of them meanwhile; this also stops deliveries that were claimed before, and outlasts a shorter pause that the
 * circuit breaker sets in the queue. Losing it loses nothing.
 */
import { setNewest } from "../lib/bounded-map.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";

interface RetryAfter {
  /** Starts a pause of this length; the latest one counts. */
  note(subscriptionId: string, ms: number): void;
  /** Returns how long an attempt must wait, ms; `undefined`: it may be made now. */
  admit(sub: Pick<Subscription, "id">): number | undefined;
  /** Returns how long the pause still lasts, ms; 0 without one. */
  leftMs(subscriptionId: string): number;
  /** Returns how many receivers are left alone now. */
  paused(): number;
  /** Forgets the pause of a subscription that was enabled again. */
  forget(subscriptionId: string): void;
}

/** Most pauses at once; beyond it the oldest is dropped. */
const HELD = 10_000;

export function createRetryAfter(clock: Pick<Clock, "monotonic">): RetryAfter {
  /** When each pause ends, monotonic ms. */
  const pauses = new Map<string, number>();

  function leftMs(subscriptionId: string): number {
    const left = (pauses.get(subscriptionId) ?? 0) - clock.monotonic();
    if (left > 0) return left;
    pauses.delete(subscriptionId);
    return 0;
  }

  return {
    leftMs,
    paused: () => [...pauses.keys()].filter((id) => leftMs(id) > 0).length,
    admit({ id }) {
      const left = leftMs(id);
      return left > 0 ? left : undefined;
    },
    note(subscriptionId, ms) {
      setNewest(pauses, subscriptionId, clock.monotonic() + ms, HELD);
    },
    forget: (subscriptionId) => void pauses.delete(subscriptionId),
  };
}
