/** Reads a delivery for a replay, even when its record is damaged. */
import type { Delivery } from "../model/delivery.ts";
import { bodyData, type RelayEvent } from "../model/event.ts";
import { compileFilter, type Filter, type Matcher } from "../model/filter.ts";
import { deliveryKey, eventKey, failedKey } from "../model/keys.ts";
import { wants, type Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { damagedDelivery, readEvent, readTexts, unlessDamaged } from "../records/damage.ts";
import { decodeDelivery, parseFailed } from "../records/delivery-records.ts";

type Readable = Pick<Storage, "getItem" | "getMany">;

/**
 * Returns the delivery of a record's text. For a damaged record it is a failed delivery, of the cycle in the index of
 * failed deliveries.
 * @returns `undefined` when the record is damaged and the index does not have it: it is pending, or was delivered
 */
export async function replayedRecord(
  storage: Readable,
  text: string,
  event: { readonly id: string; readonly keyId: string; readonly ordinal: string },
  subscriptionId: string,
): Promise<Delivery | undefined> {
  const known = unlessDamaged(() => decodeDelivery(text, deliveryKey(subscriptionId, event.ordinal)));
  if (known !== undefined) return known;
  const [line] = await readTexts(storage, [failedKey(subscriptionId, event.ordinal)]);
  const { cycle } = parseFailed(line ?? "");
  return Number.isSafeInteger(cycle) ? damagedDelivery(event, subscriptionId, cycle) : undefined;
}

/**
 * Returns the id of the event of a failed delivery.
 * @returns `undefined` when there is nothing to send: a delivery that damage ended is replayed only when its event is
 * intact. One that was never tried may stem from a time when nobody could read which events the subscription wanted
 */
export async function replayedEventId(
  storage: Readable,
  sub: Subscription,
  ordinal: string,
): Promise<string | undefined> {
  const { id, keyId } = sub;
  const key = deliveryKey(id, ordinal);
  const [text] = await readTexts(storage, [key]);
  if (text === undefined) return undefined;
  const known = unlessDamaged(() => decodeDelivery(text, key));
  if (known !== undefined && known.reason !== "record_damaged") return known.eventId;
  const [event] = await readTexts(storage, [eventKey(keyId, ordinal)]);
  const found = readEvent(keyId, ordinal, event);
  if (found.damaged) return undefined;
  const untried = known !== undefined && known.cycle === 0 && known.attempts.length === 0;
  return untried && !wantsEvent(sub, found.event) ? undefined : found.event.id;
}

function wantsEvent(sub: Subscription, event: RelayEvent): boolean {
  if (!wants(sub, event.type)) return false;
  return sub.filter === undefined || matcherOf(sub.filter).matches({ type: event.type, data: dataOf(event) });
}

const dataOf = (event: RelayEvent): unknown => JSON.parse(bodyData(event)) as unknown;

/** A filter that this version cannot read excludes nothing. */
function matcherOf(filter: Filter): Pick<Matcher, "matches"> {
  try {
    return compileFilter(filter);
  } catch {
    return { matches: () => true };
  }
}
