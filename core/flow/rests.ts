/**
 * How long receivers have asked for rest: their own `Retry-After`, as this node heard it. The queue claims nothing of them
 * meanwhile; this also stops what was claimed before. Losing it loses nothing.
 */
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";

export interface Rests {
  /** @param until epoch ms; the latest word counts */
  note(subscriptionId: string, until: number): void;
  /** Epoch ms until which an attempt must wait; `undefined`: it may be made now. */
  admit(sub: Pick<Subscription, "id">): number | undefined;
  /** How long it still lasts, ms; 0 when there is none. */
  leftMs(subscriptionId: string): number;
  /** It begins afresh: re-enabled. */
  forget(subscriptionId: string): void;
}

/** Receivers that rest at once; beyond it the oldest word goes. */
const HELD = 10_000;

export function createRests(clock: Pick<Clock, "now">): Rests {
  const rests = new Map<string, number>();

  function leftMs(subscriptionId: string): number {
    const left = (rests.get(subscriptionId) ?? 0) - clock.now();
    if (left > 0) return left;
    rests.delete(subscriptionId);
    return 0;
  }

  return {
    leftMs,
    admit: ({ id }) => (leftMs(id) > 0 ? rests.get(id) : undefined),
    note(subscriptionId, until) {
      rests.delete(subscriptionId);
      if (rests.size >= HELD) rests.delete(rests.keys().next().value as string);
      rests.set(subscriptionId, until);
    },
    forget: (subscriptionId) => void rests.delete(subscriptionId),
  };
}
