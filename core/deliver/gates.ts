/** Asks what may keep an attempt waiting, one after the other. */
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";

/** Returns how long an attempt of this delivery (ordinal) must wait, ms, or `undefined` when it may be made. */
export type AttemptGate = (sub: Subscription, ordinal: string) => MaybePromise<number | undefined>;

/**
 * @param from the gates before this one are not asked
 * @returns the wait of the first gate that names one; the gates behind it are not asked
 */
export function askGates(
  gates: readonly AttemptGate[],
  sub: Subscription,
  ordinal: string,
  from = 0,
): MaybePromise<number | undefined> {
  for (let i = from; i < gates.length; i++) {
    const ms = (gates[i] as AttemptGate)(sub, ordinal);
    if (ms instanceof Promise) return ms.then((wait) => wait ?? askGates(gates, sub, ordinal, i + 1));
    if (ms !== undefined) return ms;
  }
  return undefined;
}
