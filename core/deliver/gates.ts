/** Asks what may keep an attempt waiting, one after the other. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Subscription } from "../model/subscription.ts";

/** Returns how long an attempt of this delivery (ordinal) must wait, ms, or `undefined` when it may be made. */
export type AttemptGate = (sub: Subscription, ordinal: string) => MaybePromise<number | undefined>;

/** Returns the wait of the first gate that names one; the gates behind it are not asked. */
export async function askGates(
  gates: readonly AttemptGate[],
  sub: Subscription,
  ordinal: string,
): Promise<number | undefined> {
  for (const gate of gates) {
    const ms = await gate(sub, ordinal);
    if (ms !== undefined) return ms;
  }
  return undefined;
}
