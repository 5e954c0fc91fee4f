/** Decides in which sequence of an ordered subscription an event goes. Pure. */
import { createHash } from "node:crypto";
import { namesOf, valueAt } from "./filter.ts";
import type { Subscription } from "./subscription.ts";

/**
 * Sequences of a subscription with `orderBy`. Values share them by a hash, so that their number is bounded: equal values
 * always have the same one. A constant, because a stored place names its sequence.
 */
export const SEQUENCES_EACH = 16;
/** Most ordered subscriptions of one key: the commit of an event writes a row for each of them. */
export const MOST_ORDERED = 10;

/**
 * Returns the sequence of an event. One without `orderBy` has a single sequence, and so has a value that is missing.
 * @param data returns the event's data
 */
export function sequenceOf({ orderBy }: Pick<Subscription, "orderBy">, type: string, data: () => unknown): number {
  if (orderBy === undefined) return 0;
  const value = valueAt(namesOf(orderBy), { type, data: data() });
  const hash = createHash("sha256").update(JSON.stringify(value) ?? "");
  return (hash.digest()[0] as number) % SEQUENCES_EACH;
}
