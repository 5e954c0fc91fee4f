/**
 * Lists the attempts of a key over all its events, newest event first. Attempts have no index of their own, which every
 * attempt would pay for: a page looks at a bounded number of events and deliveries, and says how far it has come.
 */
import type { Attempt, AttemptError } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { isOrdinal, ordinalFloor, ordinalTime } from "../model/ids.ts";
import { EVENT, ordinalOf } from "../model/schema.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { readEvent, unlessUnreadable } from "../records/damage.ts";
import { createDeliveryReader, pairOf } from "../records/delivery-view.ts";
import { everyPage } from "../records/every-entry.ts";
import { createRecipients, type Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";

/** All that are given must hold for one attempt. */
interface AttemptFilter {
  readonly subscriptionId?: string;
  readonly statusCode?: number;
  readonly error?: AttemptError;
  readonly minDurationMs?: number;
  /** Epoch ms of the event's acceptance: from (inclusive) … to (exclusive). */
  readonly since?: number;
  readonly until?: number;
}

interface FoundAttempt {
  readonly event: RelayEvent;
  readonly delivery: Delivery;
  readonly attempt: Attempt;
}

interface FoundAttempts {
  readonly items: readonly FoundAttempt[];
  /** Where the next page begins; absent on the last page. A page may be empty and still have a next one. */
  readonly next?: string;
  /** Epoch ms: all events accepted after it were looked at. Absent on the last page. */
  readonly searchedTo?: number;
}

/**
 * Returns the attempts of the newest cycle of each delivery, newest first in each. A page ends after the delivery with
 * which it has `limit` attempts or more.
 */
export type AttemptSearch = (
  keyId: string,
  filter: AttemptFilter,
  page: { readonly after: string | undefined; readonly limit: number },
) => Promise<FoundAttempts>;

/** Most rows, characters and deliveries that one page reads; the rest belongs to the next page. */
const ROWS_READ = 2_000;
const CHARACTERS_READ = 16_000_000;
const DELIVERIES_READ = 5_000;
const PAGE = 100;
/** Deliveries of one event that are read at once. */
const SLICE = 200;
/** Events with no more deliveries than this are read together. */
const FEW = 20;

type DeliveriesOf = ReadonlyMap<RelayEvent, readonly Delivery[]>;

/** `<ordinal>.<how many deliveries of that event were looked at>`; all of them when that is left out. */
export const isAttemptPlace = (text: string): boolean => {
  const [ordinal = "", seen = "0", ...more] = text.split(".");
  return isOrdinal(ordinal) && /^\d{1,9}$/.test(seen) && more.length === 0;
};

export function createAttemptSearch(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients?: Recipients;
}): AttemptSearch {
  const { storage, recipients = createRecipients(storage) } = deps;
  const read = createDeliveryReader(deps);

  /** Reads the deliveries of those events that have few, all at once. */
  async function readFew(events: readonly RelayEvent[], only: string | undefined): Promise<DeliveriesOf> {
    const few = events.filter((event) => deliveryCount(event) <= FEW && event.wide === undefined);
    const subs = few.map(({ subscriptionIds: ids }) => (only === undefined ? ids : ids.filter((id) => id === only)));
    const all = await read(few.flatMap((event, i) => (subs[i] ?? []).map((sub) => ({ event, sub }))));
    let end = 0;
    return new Map(few.map((event, i) => [event, all.slice(end, (end += subs[i]?.length ?? 0))]));
  }

  /** Reads a part of the deliveries of an event, in the order of its list; none when that list is damaged. */
  async function slice(
    event: RelayEvent,
    only: string | undefined,
    from: number,
    known: DeliveriesOf,
  ): Promise<readonly Delivery[]> {
    const own = known.get(event);
    if (own !== undefined) return own.slice(from);
    if (only === undefined)
      return await read(((await unlessUnreadable(recipients.slice(event, from, SLICE))) ?? []).map(pairOf(event)));
    const has = from === 0 && (await unlessUnreadable(recipients.has(event, only))) === true;
    return has ? await read([{ event, sub: only }]) : [];
  }

  return async (keyId, filter, { after, limit }) => {
    const { since = 0, until, subscriptionId } = filter;
    const items: FoundAttempt[] = [];
    const [last, seen] = after?.split(".") ?? [until === undefined ? undefined : ordinalFloor(until)];
    let rows = 0;
    let characters = 0;
    let deliveries = 0;

    /** Looks at an event from one of its deliveries on. @returns where the page ends in it; undefined: it goes on */
    async function look(event: RelayEvent, begin: number, known: DeliveriesOf): Promise<number | undefined> {
      const count = subscriptionId === undefined ? deliveryCount(event) : 1;
      for (let from = begin; from < count;) {
        const found = await slice(event, subscriptionId, from, known);
        if (found.length === 0) return undefined;
        for (const delivery of found) {
          from++;
          deliveries++;
          for (const attempt of delivery.attempts.toReversed())
            if (meets(attempt, filter)) items.push({ event, delivery, attempt });
          if (items.length >= limit) return from;
        }
        if (deliveries >= DELIVERIES_READ) return from;
      }
      return undefined;
    }

    /** Yields the event in which the last page ended, and then those behind it. */
    async function* pages(): AsyncGenerator<readonly Entry[]> {
      const key = last === undefined ? undefined : EVENT.key({ keyId, ordinal: last });
      const [value] = key === undefined || seen === undefined ? [] : await storage.getMany([key]);
      if (key !== undefined && value !== undefined) yield [{ key, value }];
      // Rows come with their bodies, which may be large, so a page is small.
      yield* everyPage(storage, EVENT.under({ keyId }), { after: key, limit: PAGE, reverse: true });
    }

    for await (const page of pages()) {
      const events = page.map(({ key, value }) => readEvent(keyId, ordinalOf(key), value));
      const intact = events.filter(({ event, damaged }) => !damaged && event.acceptedAt >= since);
      const known = await readFew(
        intact.map(({ event }) => event),
        subscriptionId,
      );
      for (const [i, { event, damaged }] of events.entries()) {
        const { ordinal, acceptedAt } = event;
        if (acceptedAt < since) return { items };
        const end = damaged ? undefined : await look(event, ordinal === last ? Number(seen) : 0, known);
        rows++;
        characters += page[i]?.value.length ?? 0;
        const full = rows >= ROWS_READ || characters >= CHARACTERS_READ || deliveries >= DELIVERIES_READ;
        if (end !== undefined || full)
          return { items, next: end === undefined ? ordinal : `${ordinal}.${end}`, searchedTo: ordinalTime(ordinal) };
      }
    }
    return { items };
  };
}

/** Whether an attempt is as all of the fields that are given ask. */
export function meets(
  attempt: Attempt,
  { statusCode, error, minDurationMs = 0 }: Pick<AttemptFilter, "statusCode" | "error" | "minDurationMs">,
): boolean {
  return (
    (statusCode === undefined || attempt.statusCode === statusCode) &&
    (error === undefined || attempt.error === error) &&
    attempt.durationMs >= minDurationMs
  );
}
