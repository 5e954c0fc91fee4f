/** What a replay reads of a delivery whose record may be damaged. */
import type { Delivery } from "../model/delivery.ts";
import { deliveryKey, eventKey, failedKey } from "../model/keys.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { damagedDelivery, readEvent, readTexts, unlessDamaged } from "../records/damage.ts";
import { decodeDelivery, parseFailed } from "../records/delivery-records.ts";

type Readable = Pick<Storage, "getItem" | "getMany">;

/**
 * The delivery of a record's text. In place of a damaged record it is a failed one, of the cycle that the index of failed
 * ones tells.
 * @returns `undefined` when the record is damaged and the index does not know it: it is pending, or went well
 */
export async function replayedRecord(
  storage: Readable,
  text: string,
  event: { readonly id: string; readonly keyId: string; readonly ordinal: string },
  subscriptionId: string,
): Promise<Delivery | undefined> {
  const known = unlessDamaged(() => decodeDelivery(text, deliveryKey(subscriptionId, event.ordinal)));
  if (known !== undefined) return known;
  const line = await storage.getItem(failedKey(subscriptionId, event.ordinal));
  const { cycle } = parseFailed(line ?? "");
  return Number.isSafeInteger(cycle) ? damagedDelivery(event, subscriptionId, cycle) : undefined;
}

/**
 * The id of the event that a failed delivery is of.
 * @returns `undefined` when there is nothing to send: a delivery that damage ended is moved only when its event is whole
 */
export async function replayedEventId(
  storage: Readable,
  { id, keyId }: Subscription,
  ordinal: string,
): Promise<string | undefined> {
  const key = deliveryKey(id, ordinal);
  const [text] = await readTexts(storage, [key]);
  if (text === undefined) return undefined;
  const known = unlessDamaged(() => decodeDelivery(text, key));
  if (known !== undefined && known.reason !== "record_damaged") return known.eventId;
  const [event] = await readTexts(storage, [eventKey(keyId, ordinal)]);
  const found = readEvent(keyId, ordinal, event);
  return found.damaged ? undefined : found.event.id;
}
