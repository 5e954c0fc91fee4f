/** Checks the fields by which a subscription is ordered, and ends what it holds up when it stops being active. */
import { EXPIRY, PASSED, SEQUENCE } from "../model/schema.ts";
import { MOST_ORDERED, SEQUENCES_EACH } from "../model/delivery.ts";
import { type FieldError, invalidFields, Problem } from "../model/problem.ts";
import { TOMBSTONE_MS, type Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { liveOf } from "../records/subscription-cache.ts";

/** @throws Problem VALIDATION_FAILED when it says how it is ordered, but is not */
export function checkOrdering({ ordered, orderBy, onFailed }: Subscription): void {
  if (ordered === true) return;
  const errors: FieldError[] = [];
  if (orderBy !== undefined) errors.push({ path: "orderBy", message: "is only for a subscription that is ordered" });
  if (onFailed !== undefined) errors.push({ path: "onFailed", message: "is only for a subscription that is ordered" });
  if (errors.length > 0) throw invalidFields(errors);
}

/** @throws Problem SUBSCRIPTION_LIMIT_REACHED when the key has as many other ordered subscriptions as it may */
export async function checkRoomForOrdered(
  storage: Pick<Storage, "range">,
  { keyId, id, ordered }: Pick<Subscription, "keyId" | "id"> & { readonly ordered?: boolean | null },
): Promise<void> {
  if (ordered !== true) return;
  const others = (await liveOf(storage, keyId)).filter((sub) => sub.ordered === true && sub.id !== id);
  if (others.length < MOST_ORDERED) return;
  const detail = `A key may have at most ${MOST_ORDERED} ordered subscriptions. Delete one, or set ordered to false on one, first.`;
  throw new Problem("SUBSCRIPTION_LIMIT_REACHED", detail);
}

/**
 * Returns the changes that have the sequences of a deleted subscription forgotten together with its tombstone: those that
 * there are, and those that an event which is being accepted now may still begin.
 */
export async function forgetSequences(
  storage: Pick<Storage, "range">,
  { keyId, id, ordered, orderBy }: Pick<Subscription, "keyId" | "id" | "ordered" | "orderBy">,
  at: number,
): Promise<readonly Change[]> {
  const rows = await storage.range(SEQUENCE.under({ keyId, subscriptionId: id }), { limit: SEQUENCES_EACH });
  const now = ordered !== true ? 0 : orderBy === undefined ? 1 : SEQUENCES_EACH;
  const each = new Set(rows.map(({ key }) => key));
  for (let sequence = 0; sequence < now; sequence++) each.add(SEQUENCE.key({ keyId, subscriptionId: id, sequence }));
  return [...each]
    .flatMap((key) => [key, PASSED.key(SEQUENCE.id(key))])
    .map((key) => EXPIRY.put({ at: at + TOMBSTONE_MS, target: key }, ""));
}
