/** Reads events and their results from storage: lists and details. */
import type { Delivery, EventStatus } from "../model/delivery.ts";
import { bodyData, deliveryCount, type RelayEvent } from "../model/event.ts";
import { ordinalFloor } from "../model/ids.ts";
import { EVENT } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import { type ReadEvent, statusOf, unlessUnreadable } from "../records/damage.ts";
import { createDeliveryReader, type DeliveryReader, pairOf } from "../records/delivery-view.ts";
import { locateEvent } from "../records/find-event.ts";
import { everyRecipient, type Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { createWideStatus, type ReadWideStatus } from "../records/wide-status.ts";
import { meets } from "./attempt-search.ts";
import { createDeliveryList, detailOf } from "./deliveries.ts";
import { indexedPages } from "./delivery-index.ts";
import { type EventPage, eventPages } from "./event-pages.ts";
import type { DeliveriesRequest, EventFilter, EventSummary, History, HistoryPage } from "./history.ts";

/** Most deliveries of wide events that one page reads to find their status. */
const DELIVERIES_READ = 20_000;

/** The first page, unless another is requested. */
const FIRST_DELIVERIES: DeliveriesRequest = { from: 0, limit: 200 };

interface HistoryDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Recipients;
  readonly clock: Pick<Clock, "now">;
}

export function createHistory(deps: HistoryDeps): History {
  const { storage, recipients } = deps;
  const read = createDeliveryReader(deps);
  const readers: Readers = { ...deps, read, wideStatus: createWideStatus({ storage, recipients, read }) };

  return {
    events: (keyId, filter, page) => new EventList(readers, keyId, filter, page.limit).from(page.after),

    async event(keyId, eventId, { from, limit } = FIRST_DELIVERIES) {
      const located = await locateEvent(storage, keyId, eventId);
      if (located === undefined) return undefined;
      const { event, damaged } = located;
      const state = event.wide === undefined ? undefined : await readWide(readers, event);
      const status = state === undefined ? (await readNarrow(read, [located])).get(event)?.status : state.status;
      const list = await unlessUnreadable(recipients.slice(event, from, limit));
      const deliveries = await read((list ?? []).map(pairOf(event)));
      const end = from + deliveries.length;
      return {
        event,
        damaged: damaged || state?.damaged === true || list === undefined,
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

    deliveries: createDeliveryList(readers),
  };
}

interface Readers extends HistoryDeps {
  readonly read: DeliveryReader;
  readonly wideStatus: ReadWideStatus;
}

interface Narrow {
  readonly status: EventStatus;
  readonly deliveries: readonly Delivery[];
}

interface Wide {
  readonly status: EventStatus;
  readonly read: number;
  readonly damaged?: true;
}

/** A wide event whose snapshot is damaged counts as failed, because its deliveries are unknown. */
const UNREADABLE: Wide = { status: "failed", read: 0, damaged: true };

const readWide = async ({ wideStatus }: Readers, event: RelayEvent): Promise<Wide> =>
  (await unlessUnreadable(wideStatus(event))) ?? UNREADABLE;

/** Reads the status and the deliveries of events with a list of their own, all at once. */
async function readNarrow(
  read: DeliveryReader,
  events: readonly ReadEvent[],
): Promise<ReadonlyMap<RelayEvent, Narrow>> {
  const narrow = events.filter(({ event }) => event.wide === undefined);
  const deliveries = await read(narrow.flatMap(({ event }) => event.subscriptionIds.map((sub) => ({ event, sub }))));
  let first = 0;
  return new Map(
    narrow.map((one) => {
      const own = deliveries.slice(first, (first += one.event.subscriptionIds.length));
      return [one.event, { status: statusOf(one, own), deliveries: own }];
    }),
  );
}

class EventList {
  readonly #readers: Readers;
  readonly #keyId: string;
  readonly #filter: EventFilter;
  readonly #limit: number;
  /** Whether it asks for something of a delivery. */
  readonly #asksDelivery: boolean;
  readonly #items: EventSummary[] = [];
  /** Deliveries of wide events that were read. */
  #read = 0;

  constructor(readers: Readers, keyId: string, filter: EventFilter, limit: number) {
    [this.#readers, this.#keyId, this.#filter, this.#limit] = [readers, keyId, filter, limit];
    this.#asksDelivery = filter.delivery !== undefined || asksAttempts(filter);
  }

  async from(after: string | undefined): Promise<HistoryPage<EventSummary>> {
    const { until } = this.#filter;
    const items = this.#items;
    let next: string | undefined;
    for await (const page of this.#pages(after ?? (until === undefined ? undefined : ordinalFloor(until)))) {
      const end = await this.#add(await this.#wanted(page.events));
      if (end !== undefined) return { items, next: end };
      next = page.next;
    }
    return { items, ...(next !== undefined && { next }) };
  }

  #pages(before: string | undefined): AsyncGenerator<EventPage> {
    const { since, delivery, subscriptionId } = this.#filter;
    const { storage } = this.#readers;
    if (delivery === "failed" || delivery === "pending")
      return indexedPages(storage, this.#keyId, delivery, { before, since, only: subscriptionId });
    const after = before === undefined ? undefined : EVENT.key({ keyId: this.#keyId, ordinal: before });
    return eventPages(storage, this.#keyId, { after, since });
  }

  /** Returns those that the filter takes by what the events themselves say. */
  async #wanted(events: readonly ReadEvent[]): Promise<readonly ReadEvent[]> {
    const { type, subscriptionId, id, text } = this.#filter;
    const wanted: ReadEvent[] = [];
    for (const found of events) {
      const { event, damaged } = found;
      if (type !== undefined && event.type !== type) continue;
      if (id !== undefined && !event.id.startsWith(id)) continue;
      if (text !== undefined && (damaged || !bodyData(event).includes(text))) continue;
      if (subscriptionId !== undefined && !(await this.#goesTo(event, subscriptionId))) continue;
      wanted.push(found);
    }
    return wanted;
  }

  /** Returns true when an event goes to a subscription; false when its snapshot is damaged. */
  async #goesTo(event: RelayEvent, id: string): Promise<boolean> {
    return (await unlessUnreadable(this.#readers.recipients.has(event, id))) === true;
  }

  /** Adds those that the filter takes by their status and attempts. @returns where the next page begins, when this one ends */
  async #add(events: readonly ReadEvent[]): Promise<string | undefined> {
    const { status } = this.#filter;
    const counted = status === undefined && !this.#asksDelivery;
    const narrow = await readNarrow(this.#readers.read, events);
    for (const { event, damaged } of events) {
      const isFull = this.#items.length === this.#limit;
      if (counted && isFull) return this.#items.at(-1)?.event.ordinal;
      const own = narrow.get(event);
      const now: Wide = own === undefined ? await readWide(this.#readers, event) : { ...own, read: 0 };
      this.#read += now.read;
      const matches = status === undefined || now.status === status;
      if (matches && (!this.#asksDelivery || (await this.#hasDelivery(event, now.status, own)))) {
        if (isFull) return this.#items.at(-1)?.event.ordinal;
        const summary = { event, damaged: damaged || now.damaged === true, status: now.status };
        this.#items.push({ ...summary, ...(own !== undefined && { deliveries: own.deliveries }) });
      }
      // The next page continues after this event, and its status is remembered.
      if (this.#read >= DELIVERIES_READ) return event.ordinal;
    }
    return undefined;
  }

  /** Returns true when it has such a delivery as the filter asks for. Those of a wide event are read, in pages. */
  async #hasDelivery(event: RelayEvent, status: EventStatus, own: Narrow | undefined): Promise<boolean> {
    if (own !== undefined) return own.deliveries.some((one) => isAsked(one, this.#filter));
    const { delivery } = this.#filter;
    if (delivery !== undefined && IN_TURN.indexOf(delivery) < IN_TURN.indexOf(status)) return false;
    return (await unlessUnreadable(this.#wideHas(event))) ?? delivery === "failed";
  }

  async #wideHas(event: RelayEvent): Promise<boolean> {
    const { read, recipients } = this.#readers;
    const { subscriptionId: id } = this.#filter;
    for await (const page of id === undefined ? everyRecipient(recipients, event) : [[{ id }]]) {
      const deliveries = await read(page.map(pairOf(event)));
      this.#read += deliveries.length;
      if (deliveries.some((one) => isAsked(one, this.#filter))) return true;
    }
    return false;
  }
}

/** An event is in the first of these states that one of its deliveries is in. */
const IN_TURN: readonly EventStatus[] = ["pending", "failed", "delivered", "cancelled"];

const asksAttempts = ({ statusCode, error, minDurationMs }: EventFilter): boolean =>
  [statusCode, error, minDurationMs].some((one) => one !== undefined);

const isAsked = ({ subscriptionId, status, attempts }: Delivery, filter: EventFilter): boolean =>
  (filter.subscriptionId ?? subscriptionId) === subscriptionId &&
  (filter.delivery ?? status) === status &&
  (!asksAttempts(filter) || attempts.some((one) => meets(one, filter)));
