/** Reads from stored deliveries what happened at a receiver, where a node's own memory may be out of date. */
import { deliveriesOf } from "../model/keys.ts";
import type { Storage } from "../ports/storage.ts";
import { unlessDamaged } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { decodeDelivery } from "../records/delivery-records.ts";

const PAGE = 200;
/** Most deliveries read, the newest first: a receiver that failed this often has failed for long enough. */
const MOST = 2_000;

/** What the newest deliveries of a subscription tell, from whichever node. */
interface StoredOutcomes {
  /** Whether one of them succeeded at `since` or later. If so, the rest is not read. */
  readonly succeeded: boolean;
  /** Epoch ms of the last attempt before `before`; absent when there is none. */
  readonly attemptedAt?: number;
}

/**
 * @param since epoch ms
 * @param before epoch ms. @default any time
 * @throws StorageError
 */
export async function storedOutcomes(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
  since: number,
  before = Number.POSITIVE_INFINITY,
): Promise<StoredOutcomes> {
  let attemptedAt = Number.NEGATIVE_INFINITY;
  let looked = 0;
  const newest = { reverse: true, limit: PAGE };
  for await (const { value } of everyEntry(storage, deliveriesOf(subscriptionId), newest)) {
    // A record that cannot be read is no evidence.
    const delivery = unlessDamaged(() => decodeDelivery(value));
    if (delivery?.status === "delivered" && delivery.updatedAt >= since) return { succeeded: true };
    const at = delivery?.attempts.at(-1)?.startedAt ?? before;
    if (at < before) attemptedAt = Math.max(attemptedAt, at);
    if (++looked === MOST) break;
  }
  return { succeeded: false, ...(attemptedAt > Number.NEGATIVE_INFINITY && { attemptedAt }) };
}
