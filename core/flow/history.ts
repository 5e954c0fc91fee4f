/** What became of events: lists and details, read from storage as they stand. */
import { neverTried } from "../model/delivery.ts";
import type { Delivery, DeliveryStatus, Due, EventStatus } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { isOrdinal, ordinalFloor, ordinalTime } from "../model/ids.ts";
import { attemptsOf, deliveriesOf, deliveryKey, dueKey, duesOf, eventKey, eventsOf, parseDue } from "../model/keys.ts";
import type { Attempt } from "../model/attempt.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { damagedDelivery, readEvent, readText, statusOf, unlessDamaged, unlessDamagedLater } from "./damage.ts";
import type { ReadEvent } from "./damage.ts";
import { everyEntry } from "./directory.ts";
import type { Directory } from "./directory.ts";
import { locateEvent } from "./locate.ts";
import { createReading, readDelivery } from "./reading.ts";
import type { Wanted } from "./reading.ts";
import { decodeAttempts, decodeDelivery } from "./records.ts";

export { readDelivery } from "./reading.ts";

/** Rows and characters that one page may read; what lies behind is the next page's. */
const ROWS_READ = 2_000;
const CHARACTERS_READ = 16_000_000;
const PAGE = 100;

export interface EventFilter {
  readonly status?: EventStatus;
  readonly type?: string;
  readonly subscriptionId?: string;
  /** Epoch ms of acceptance: from (inclusive) … to (exclusive). */
  readonly since?: number;
  readonly until?: number;
}

export interface EventSummary {
  readonly event: RelayEvent;
  /** Its record is damaged: of `event` only key, ordinal and times are certain, and it has no body. */
  readonly damaged: boolean;
  readonly status: EventStatus;
}

/** A delivery as it reads now, with the attempts of every cycle, oldest first. */
export interface DeliveryDetail {
  readonly delivery: Delivery;
  readonly attempts: readonly Attempt[];
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Where the next page begins; absent when there is no more. A page may be empty and still have a next one. */
  readonly next?: string;
}

export interface PageRequest {
  readonly after?: string;
  readonly limit: number;
}

export interface History {
  /** Newest first. */
  events(keyId: string, filter: EventFilter, page: PageRequest): Promise<Page<EventSummary>>;
  event(
    keyId: string,
    eventId: string,
  ): Promise<(ReadEvent & { readonly deliveries: readonly DeliveryDetail[] }) | undefined>;
  /** Those of one subscription, newest event first. */
  deliveries(
    subscription: Subscription,
    status: DeliveryStatus | undefined,
    page: PageRequest,
  ): Promise<Page<DeliveryDetail>>;
}

export function createHistory(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly directory: Directory;
  readonly clock: Pick<Clock, "now">;
}): History {
  const { storage, clock } = deps;
  const read = createReading(deps);

  async function withAttempts(delivery: Delivery): Promise<DeliveryDetail> {
    const attempts: Attempt[] = [];
    if (delivery.cycle > 0) {
      for await (const { key, value } of everyEntry(storage, attemptsOf(delivery.subscriptionId, delivery.ordinal)))
        attempts.push(...(unlessDamaged(() => decodeAttempts(value, key)) ?? []));
    }
    attempts.push(...delivery.attempts);
    return { delivery, attempts };
  }

  return {
    async events(keyId, filter, { after, limit }) {
      const { since = 0, until, type, subscriptionId, status } = filter;
      const items: EventSummary[] = [];
      let rows = 0;
      let characters = 0;
      let at = after ?? (until === undefined ? undefined : ordinalFloor(until));
      for (;;) {
        const from = at === undefined ? undefined : eventKey(keyId, at);
        // Bodies come with their rows, so a page is small while they may be large.
        const page = await storage.range(eventsOf(keyId), { after: from, limit: PAGE, reverse: true });
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
          if (subscriptionId !== undefined && !event.subscriptionIds.includes(subscriptionId)) continue;
          wanted.push(found);
        }
        const pairs = wanted.flatMap(({ event }) => event.subscriptionIds.map((sub) => ({ event, sub })));
        const deliveries = await read(pairs);
        let first = 0;
        for (const found of wanted) {
          const { event } = found;
          const own = deliveries.slice(first, (first += event.subscriptionIds.length));
          const now = statusOf(found, own);
          if (status !== undefined && now !== status) continue;
          if (items.length === limit) return { items, next: items.at(-1)?.event.ordinal };
          items.push({ ...found, status: now });
        }
        if (ended) return { items };
        at = ordinalOf(page.at(-1)?.key ?? "");
        rows += page.length;
        if (rows >= ROWS_READ || characters >= CHARACTERS_READ) return { items, next: at };
      }
    },

    async event(keyId, eventId) {
      const located = await locateEvent(storage, keyId, eventId);
      if (located === undefined) return undefined;
      const { event, damaged } = located;
      const deliveries = await read(event.subscriptionIds.map((sub) => ({ event, sub })));
      return { event, damaged, deliveries: await Promise.all(deliveries.map(withAttempts)) };
    },

    async deliveries(subscription, status, { after, limit }) {
      const { id, keyId } = subscription;
      const place = after ?? ordinalFloor(clock.now() + 1);
      const lineFrom = dueKey({ subscriptionId: id, dueAt: ordinalTime(place), ordinal: place });
      const records = newest(storage, deliveriesOf(id), after === undefined ? undefined : deliveryKey(id, after));
      const lines = newest(storage, duesOf(id), lineFrom);
      const items: DeliveryDetail[] = [];
      let rows = 0;
      let last = after;
      let record = await records.next();
      let line = await lines.next();
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
          items.push(await withAttempts(delivery));
        }
        last = delivery?.ordinal ?? (due === undefined ? last : placeOf(due));
      }
      return { items };
    },
  };

  /** A line does not name its event: the event's record does. */
  async function untried(keyId: string, { subscriptionId, ordinal }: Due): Promise<Delivery | undefined> {
    const text = await storage.getItem(eventKey(keyId, ordinal));
    if (text === undefined) return undefined;
    const { event } = readEvent(keyId, ordinal, text);
    const [delivery] = await read([{ event, sub: subscriptionId }]);
    return delivery;
  }

  /** A damaged record does not name its event either. */
  async function recordOf(keyId: string, subscriptionId: string, { key, value }: Entry): Promise<Delivery> {
    const known = unlessDamaged(() => decodeDelivery(value, key));
    if (known !== undefined) return known;
    const ordinal = ordinalOf(key);
    const text = await unlessDamagedLater(readText(storage, "event", eventKey(keyId, ordinal)));
    return damagedDelivery(readEvent(keyId, ordinal, text).event, subscriptionId);
  }
}

/** `undefined` for what is no line of ours. */
function lineOf({ key, value }: Entry): Due | undefined {
  try {
    return parseDue(key, value);
  } catch {
    return undefined;
  }
}

const eventOf = (known: Delivery): Wanted => ({
  id: known.eventId,
  keyId: known.keyId,
  ordinal: known.ordinal,
  acceptedAt: ordinalTime(known.ordinal),
});

const ordinalOf = (key: string): string => key.slice(key.lastIndexOf(":") + 1);

/** Where a line stands among the ordinals. Other lines than untried ones tell nothing that their records do not. */
const placeOf = (due: Due): string => (neverTried(due) ? due.ordinal : ordinalFloor(due.dueAt));

/** True for what a cursor may hold. */
export const isPlace = (text: string): boolean => isOrdinal(text);

async function* newest(
  storage: Pick<Storage, "range">,
  prefix: string,
  from: string | undefined,
): AsyncGenerator<{ readonly key: string; readonly value: string }> {
  let after = from;
  for (;;) {
    const page = await storage.range(prefix, { after, limit: PAGE, reverse: true });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.key;
  }
}
