/** Reads the deliveries of one subscription, newest event first: records, and due lines of deliveries without one. */
import { neverTried, type Delivery, type DeliveryStatus, type Due } from "../model/delivery.ts";
import { ordinalFloor, ordinalTime } from "../model/ids.ts";
import { DAMAGED } from "../model/kind.ts";
import { DELIVERY, DUE, EVENT, ordinalOf } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { damagedDelivery, loadEvent, readEvent } from "../records/damage.ts";
import type { DeliveryDetail, History, HistoryPage, PageRequest } from "./history.ts";
import type { Subscription } from "../model/subscription.ts";
import { everyEntry } from "../records/every-entry.ts";
import { readDelivery, type DeliveryReader, type WantedDelivery } from "../records/delivery-view.ts";
import { lineOf } from "../records/sequences.ts";

/** Most rows that one page reads; the rest belongs to the next page. */
const ROWS_READ = 2_000;
const EVENTS_AT_ONCE = 25;
const NEWEST = { reverse: true, limit: 100 };

export function createDeliveryList(deps: {
  readonly storage: Pick<Storage, "getItem" | "range">;
  readonly clock: Pick<Clock, "now">;
  readonly read: DeliveryReader;
  readonly detailOf: (delivery: Delivery) => DeliveryDetail;
}): History["deliveries"] {
  const { storage, clock, read, detailOf } = deps;

  /** A line does not name its event; the event's record does. */
  async function untried(keyId: string, { subscriptionId, ordinal }: Due): Promise<Delivery | undefined> {
    const text = await storage.getItem(EVENT.key({ keyId, ordinal }));
    if (text === undefined) return undefined;
    const { event } = readEvent(keyId, ordinal, text);
    const [delivery] = await read([{ event, sub: subscriptionId }]);
    return delivery;
  }

  /** A damaged record does not name its event either. */
  async function recordOf(keyId: string, subscriptionId: string, { key, value }: Entry): Promise<Delivery> {
    const known = DELIVERY.read(value, key);
    if (known !== DAMAGED) return known;
    return damagedDelivery((await loadEvent(storage, keyId, ordinalOf(key))).event, subscriptionId);
  }

  /** Returns a place that all events are behind: those of a clock that was ahead are younger than now. */
  async function newestPlace(keyId: string): Promise<string> {
    const [youngest] = await storage.range(EVENT.under({ keyId }), { reverse: true, limit: 1 });
    const acceptedAt = youngest === undefined ? 0 : ordinalTime(ordinalOf(youngest.key));
    return ordinalFloor(Math.max(clock.now(), acceptedAt) + 1);
  }

  async function typed(detail: DeliveryDetail): Promise<DeliveryDetail> {
    const { keyId, ordinal } = detail.delivery;
    const { event, damaged } = await loadEvent(storage, keyId, ordinal);
    return damaged ? detail : { ...detail, type: event.type };
  }

  /** Their events have bodies: a few at a time. */
  async function allTyped(page: HistoryPage<DeliveryDetail>): Promise<HistoryPage<DeliveryDetail>> {
    const items: DeliveryDetail[] = [];
    for (let i = 0; i < page.items.length; i += EVENTS_AT_ONCE)
      items.push(...(await Promise.all(page.items.slice(i, i + EVENTS_AT_ONCE).map(typed))));
    return { ...page, items };
  }

  async function pageOf(
    subscription: Subscription,
    status: DeliveryStatus | undefined,
    { after, limit }: PageRequest,
  ): Promise<HistoryPage<DeliveryDetail>> {
    const { id, keyId } = subscription;
    const place = after ?? (await newestPlace(keyId));
    const lineFrom = DUE.key({ subscriptionId: id, dueAt: ordinalTime(place), ordinal: place });
    const recordFrom = after === undefined ? undefined : DELIVERY.key({ subscriptionId: id, ordinal: after });
    const records = everyEntry(storage, DELIVERY.under({ subscriptionId: id }), { ...NEWEST, after: recordFrom });
    const lines = everyEntry(storage, DUE.under({ subscriptionId: id }), { ...NEWEST, after: lineFrom });
    const items: DeliveryDetail[] = [];
    let rows = 0;
    let last = after;
    let [record, line] = [await records.next(), await lines.next()];
    while (!record.done || !line.done) {
      if (++rows > ROWS_READ) return { items, next: last };
      const known = record.done ? undefined : await recordOf(keyId, id, record.value);
      const due = line.done ? undefined : lineOf(line.value);
      if (due === undefined && !line.done) {
        line = await lines.next();
        continue;
      }
      let delivery: Delivery | undefined;
      if (known !== undefined && (due === undefined || known.ordinal >= placeOf(due))) {
        delivery = readDelivery(known, eventOf(known), subscription, undefined, id);
        record = await records.next();
        if (due !== undefined && known.ordinal === placeOf(due)) line = await lines.next();
      } else if (due !== undefined) {
        delivery = neverTried(due) ? await untried(keyId, due) : undefined;
        line = await lines.next();
      }
      if (delivery !== undefined && (status === undefined || delivery.status === status)) {
        if (items.length === limit) return { items, next: last };
        items.push(detailOf(delivery));
      }
      last = delivery?.ordinal ?? (due === undefined ? last : placeOf(due));
    }
    return { items };
  }

  return async (...request) => allTyped(await pageOf(...request));
}

const eventOf = (known: Delivery): WantedDelivery => ({
  id: known.eventId,
  keyId: known.keyId,
  ordinal: known.ordinal,
  acceptedAt: ordinalTime(known.ordinal),
});

/** Returns the place of a line among the ordinals. Only lines of deliveries without an attempt say more than a record. */
const placeOf = (due: Due): string => (neverTried(due) ? due.ordinal : ordinalFloor(due.dueAt));
