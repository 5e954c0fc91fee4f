/** Reads events and their results from storage: lists and details. */
import type { Delivery, EventStatus } from "../model/delivery.ts";
import { bodyData, deliveryCount, type RelayEvent } from "../model/event.ts";
import { isOrdinal, ordinalFloor } from "../model/ids.ts";
import { EVENT, ordinalOf } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import { readEvent, type ReadEvent, statusOf, unlessUnreadable } from "../records/damage.ts";
import { meets } from "./attempt-search.ts";
import { createDeliveryList } from "./deliveries.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { locateEvent } from "../records/find-event.ts";
import { createDeliveryReader, pairOf } from "../records/delivery-view.ts";
import { createRecipients, everyRecipient, type Recipients } from "../records/recipients.ts";
import { createWideStatus } from "../records/wide-status.ts";

import type { DeliveriesRequest, DeliveryDetail, EventFilter, EventSummary, History } from "./history.ts";

export { readDelivery } from "../records/delivery-view.ts";

/** Most rows and characters that one page reads; the rest belongs to the next page. */
const ROWS_READ = 2_000;
const CHARACTERS_READ = 16_000_000;
const PAGE = 100;
/** Most deliveries of wide events that one page reads to find their status. */
const DELIVERIES_READ = 20_000;

/** The first page, unless another is requested. */
const FIRST_DELIVERIES: DeliveriesRequest = { from: 0, limit: 200 };

export function createHistory(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients?: Recipients;
  readonly clock: Pick<Clock, "now">;
}): History {
  const { storage, clock, recipients = createRecipients(storage) } = deps;
  const read = createDeliveryReader(deps);
  const wideStatus = createWideStatus({ storage, recipients, read });

  /** Reads the status and the deliveries of events with a list of their own, all at once. */
  async function readNarrow(events: readonly ReadEvent[]): Promise<ReadonlyMap<RelayEvent, Narrow>> {
    const narrow = events.filter(({ event }) => event.wide === undefined);
    const pairs = narrow.flatMap(({ event }) => event.subscriptionIds.map((sub) => ({ event, sub })));
    const deliveries = await read(pairs);
    const found = new Map<RelayEvent, Narrow>();
    let first = 0;
    for (const one of narrow) {
      const own = deliveries.slice(first, (first += one.event.subscriptionIds.length));
      found.set(one.event, { status: statusOf(one, own), deliveries: own });
    }
    return found;
  }

  /** Whether a delivery of a wide event was attempted as the filter asks, and how many were read to tell. */
  async function attemptedWide(event: RelayEvent, filter: EventFilter): Promise<{ found: boolean; read: number }> {
    const { subscriptionId: id } = filter;
    let count = 0;
    for await (const page of id === undefined ? everyRecipient(recipients, event) : [[{ id }]]) {
      const deliveries = await read(page.map(pairOf(event)));
      count += deliveries.length;
      if (wasAttempted(deliveries, filter)) return { found: true, read: count };
    }
    return { found: false, read: count };
  }

  const readWide = async (event: RelayEvent): Promise<Wide> =>
    (await unlessUnreadable(wideStatus(event))) ?? UNREADABLE;

  /** Whether an event goes to a subscription; false when its snapshot is damaged. */
  const goesTo = async (event: RelayEvent, id: string): Promise<boolean> =>
    (await unlessUnreadable(recipients.has(event, id))) === true;

  return {
    async events(keyId, filter, { after, limit }) {
      const { since = 0, until, type, subscriptionId, status, id, text } = filter;
      const asksAttempts = [filter.statusCode, filter.error, filter.minDurationMs].some((one) => one !== undefined);
      const counted = status === undefined && !asksAttempts;
      const items: EventSummary[] = [];
      let rows = 0;
      let looked = 0;
      let characters = 0;
      let at = after ?? (until === undefined ? undefined : ordinalFloor(until));
      for (;;) {
        const from = at === undefined ? undefined : EVENT.key({ keyId, ordinal: at });
        // Rows come with their bodies, which may be large, so a page is small.
        const page = await storage.range(EVENT.under({ keyId }), { after: from, limit: PAGE, reverse: true });
        const wanted: ReadEvent[] = [];
        let ended = page.length < PAGE;
        for (const { key, value } of page) {
          const found = readEvent(keyId, ordinalOf(key), value);
          const { event } = found;
          characters += value.length;
          if (event.acceptedAt < since) {
            ended = true;
            break;
          }
          if (type !== undefined && event.type !== type) continue;
          if (id !== undefined && !event.id.startsWith(id)) continue;
          if (text !== undefined && (found.damaged || !bodyData(event).includes(text))) continue;
          if (subscriptionId !== undefined && !(await goesTo(event, subscriptionId))) continue;
          wanted.push(found);
        }
        const narrow = await readNarrow(wanted);
        for (const found of wanted) {
          const { event } = found;
          if (counted && items.length === limit) return { items, next: items.at(-1)?.event.ordinal };
          const own = narrow.get(event);
          const wide = own === undefined ? await readWide(event) : undefined;
          const now = (own ?? wide)?.status as EventStatus;
          const damaged = found.damaged || wide?.damaged === true;
          looked += wide?.read ?? 0;
          let matches = status === undefined || now === status;
          if (matches && asksAttempts) {
            const many = own === undefined ? await unlessUnreadable(attemptedWide(event, filter)) : undefined;
            looked += many?.read ?? 0;
            matches = many?.found ?? wasAttempted(own?.deliveries ?? [], filter);
          }
          if (matches) {
            if (items.length === limit) return { items, next: items.at(-1)?.event.ordinal };
            items.push({ event, damaged, status: now, ...(own !== undefined && { deliveries: own.deliveries }) });
          }
          // The next page continues after this event, and its status is remembered.
          if (looked >= DELIVERIES_READ) return { items, next: event.ordinal };
        }
        if (ended) return { items };
        at = ordinalOf(page.at(-1)?.key ?? "");
        rows += page.length;
        if (rows >= ROWS_READ || characters >= CHARACTERS_READ) return { items, next: at };
      }
    },

    async event(keyId, eventId, { from, limit } = FIRST_DELIVERIES) {
      const located = await locateEvent(storage, keyId, eventId);
      if (located === undefined) return undefined;
      const { event, damaged } = located;
      const wide = event.wide === undefined ? undefined : await readWide(event);
      const status = wide === undefined ? (await readNarrow([located])).get(event)?.status : wide.status;
      const list = await unlessUnreadable(recipients.slice(event, from, limit));
      const deliveries = await read((list ?? []).map(pairOf(event)));
      const end = from + deliveries.length;
      return {
        event,
        damaged: damaged || wide?.damaged === true || list === undefined,
        status: status as EventStatus,
        deliveries: deliveries.map(detailOf),
        ...(end < deliveryCount(event) && deliveries.length > 0 && { next: end }),
      };
    },

    async *everyDelivery(keyId, eventId) {
      const event = (await locateEvent(storage, keyId, eventId))?.event;
      if (event === undefined) return;
      for await (const page of everyRecipient(recipients, event)) yield await read(page.map(pairOf(event)));
    },

    deliveries: createDeliveryList({ storage, clock, read, detailOf }),
  };
}

interface Narrow {
  readonly status: EventStatus;
  readonly deliveries: readonly Delivery[];
}

interface Wide {
  readonly status: EventStatus;
  /** How many deliveries were read. */
  readonly read: number;
  readonly damaged?: true;
}

/** What is listed of a wide event whose snapshot is damaged: it counts as failed, because its deliveries are unknown. */
const UNREADABLE: Wide = { status: "failed", read: 0, damaged: true };

function wasAttempted(deliveries: readonly Delivery[], filter: EventFilter): boolean {
  const { subscriptionId: id } = filter;
  return deliveries.some(
    ({ subscriptionId, attempts }) =>
      (id ?? subscriptionId) === subscriptionId && attempts.some((one) => meets(one, filter)),
  );
}

const detailOf = (delivery: Delivery): DeliveryDetail => ({ delivery, attempts: delivery.attempts });

/** Whether a cursor may contain the text. */
export const isPlace = (text: string): boolean => isOrdinal(text);
