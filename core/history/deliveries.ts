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

interface ListDeps {
  readonly storage: Pick<Storage, "getItem" | "range">;
  readonly clock: Pick<Clock, "now">;
  readonly read: DeliveryReader;
}

/** A row of the subscription: its place among the ordinals, and its delivery, unless another row shows that. */
interface Row {
  readonly place?: string;
  readonly delivery?: Delivery;
}

export function createDeliveryList(deps: ListDeps): History["deliveries"] {
  async function pageOf(
    subscription: Subscription,
    status: DeliveryStatus | undefined,
    { after, limit }: PageRequest,
  ): Promise<HistoryPage<Delivery>> {
    const items: Delivery[] = [];
    let rows = 0;
    let next = after;
    for await (const { place, delivery } of rowsOf(deps, subscription, after)) {
      if (++rows > ROWS_READ) return { items, next };
      if (delivery !== undefined && (status === undefined || delivery.status === status)) {
        if (items.length === limit) return { items, next };
        items.push(delivery);
      }
      next = place ?? next;
    }
    return { items };
  }

  return async (...request) => {
    const { items, next } = await pageOf(...request);
    const typed: DeliveryDetail[] = [];
    // Their events have bodies: a few at a time.
    for (let i = 0; i < items.length; i += EVENTS_AT_ONCE)
      typed.push(...(await Promise.all(items.slice(i, i + EVENTS_AT_ONCE).map((one) => withType(deps, one)))));
    return { items: typed, ...(next !== undefined && { next }) };
  };
}

/** Merges the records of a subscription with the lines of deliveries that have none, newest first. */
async function* rowsOf(deps: ListDeps, subscription: Subscription, after: string | undefined): AsyncGenerator<Row> {
  const { storage } = deps;
  const { id: subscriptionId, keyId } = subscription;
  const place = after ?? (await newestPlace(deps, keyId));
  const lineFrom = DUE.key({ subscriptionId, dueAt: ordinalTime(place), ordinal: place });
  const recordFrom = after === undefined ? undefined : DELIVERY.key({ subscriptionId, ordinal: after });
  const records = everyEntry(storage, DELIVERY.under({ subscriptionId }), { ...NEWEST, after: recordFrom });
  const lines = everyEntry(storage, DUE.under({ subscriptionId }), { ...NEWEST, after: lineFrom });
  let [record, line] = [await records.next(), await lines.next()];
  while (!record.done || !line.done) {
    const known = record.done ? undefined : await recordOf(storage, keyId, subscriptionId, record.value);
    const due = line.done ? undefined : lineOf(line.value);
    if (due === undefined && !line.done) {
      yield {};
      line = await lines.next();
    } else if (known !== undefined && (due === undefined || known.ordinal >= placeOf(due))) {
      const delivery = readDelivery(known, eventOf(known), subscription, undefined, subscriptionId);
      yield { place: known.ordinal, delivery };
      record = await records.next();
      if (due !== undefined && known.ordinal === placeOf(due)) line = await lines.next();
    } else if (due !== undefined) {
      yield { place: placeOf(due), delivery: neverTried(due) ? await untried(deps, keyId, due) : undefined };
      line = await lines.next();
    }
  }
}

/** Returns a place that all events are behind: those of a clock that was ahead are younger than now. */
async function newestPlace({ storage, clock }: ListDeps, keyId: string): Promise<string> {
  const [youngest] = await storage.range(EVENT.under({ keyId }), { reverse: true, limit: 1 });
  const acceptedAt = youngest === undefined ? 0 : ordinalTime(ordinalOf(youngest.key));
  return ordinalFloor(Math.max(clock.now(), acceptedAt) + 1);
}

/** A damaged record does not name its event; the event's own record does. */
async function recordOf(
  storage: ListDeps["storage"],
  keyId: string,
  subscriptionId: string,
  { key, value }: Entry,
): Promise<Delivery> {
  const known = DELIVERY.read(value, key);
  if (known !== DAMAGED) return known;
  return damagedDelivery((await loadEvent(storage, keyId, ordinalOf(key))).event, subscriptionId);
}

/** A line does not name its event either. */
async function untried(
  { storage, read }: ListDeps,
  keyId: string,
  { subscriptionId, ordinal }: Due,
): Promise<Delivery | undefined> {
  const text = await storage.getItem(EVENT.key({ keyId, ordinal }));
  if (text === undefined) return undefined;
  const { event } = readEvent(keyId, ordinal, text);
  const [delivery] = await read([{ event, sub: subscriptionId }]);
  return delivery;
}

async function withType({ storage }: ListDeps, delivery: Delivery): Promise<DeliveryDetail> {
  const { event, damaged } = await loadEvent(storage, delivery.keyId, delivery.ordinal);
  return damaged ? detailOf(delivery) : { ...detailOf(delivery), type: event.type };
}

export const detailOf = (delivery: Delivery): DeliveryDetail => ({ delivery, attempts: delivery.attempts });

const eventOf = (known: Delivery): WantedDelivery => ({
  id: known.eventId,
  keyId: known.keyId,
  ordinal: known.ordinal,
  acceptedAt: ordinalTime(known.ordinal),
});

/** Returns the place of a line among the ordinals. Only lines of deliveries without an attempt say more than a record. */
const placeOf = (due: Due): string => (neverTried(due) ? due.ordinal : ordinalFloor(due.dueAt));
