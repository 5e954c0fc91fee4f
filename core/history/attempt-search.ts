/**
 * Lists the attempts of a key over all its events, newest event first. Attempts have no index of their own, which every
 * attempt would pay for: a page reads a bounded number of events and deliveries, and says how far it has come.
 */
import type { Attempt, AttemptError } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import { isOrdinal, ordinalFloor, ordinalTime } from "../model/ids.ts";
import { EVENT } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { unlessUnreadable } from "../records/damage.ts";
import { createDeliveryReader, type DeliveryReader, pairOf } from "../records/delivery-view.ts";
import type { Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { eventPages } from "./event-pages.ts";

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
  /** Epoch ms: all events accepted after it were searched. Absent on the last page. */
  readonly searchedTo?: number;
}

/** Returns attempts of newest cycles, newest first. A page ends after the delivery that reaches `limit`. */
export type AttemptSearch = (
  keyId: string,
  filter: AttemptFilter,
  page: { readonly after: string | undefined; readonly limit: number },
) => Promise<FoundAttempts>;

/** Most deliveries that one page reads; the rest belongs to the next page. */
const DELIVERIES_READ = 5_000;
/** Deliveries of one event that are read at once. */
const SLICE = 200;
/** Events with no more deliveries than this are read together. */
const FEW = 20;

type DeliveriesOf = ReadonlyMap<RelayEvent, readonly Delivery[]>;

/** `<ordinal>.<how many deliveries of that event were read>`; all of them when that is left out. */
export const isAttemptPlace = (text: string): boolean => {
  const [ordinal = "", seen = "0", ...more] = text.split(".");
  return isOrdinal(ordinal) && /^\d{1,9}$/.test(seen) && more.length === 0;
};

interface SearchDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Recipients;
}

export function createAttemptSearch(deps: SearchDeps): AttemptSearch {
  const read = createDeliveryReader(deps);
  return (keyId, filter, page) => new Search({ ...deps, read }, keyId, filter, page.limit).from(page.after);
}

class Search {
  readonly #deps: SearchDeps & { readonly read: DeliveryReader };
  readonly #keyId: string;
  readonly #filter: AttemptFilter;
  readonly #limit: number;
  readonly #items: FoundAttempt[] = [];
  #deliveries = 0;

  constructor(
    deps: SearchDeps & { readonly read: DeliveryReader },
    keyId: string,
    filter: AttemptFilter,
    limit: number,
  ) {
    [this.#deps, this.#keyId, this.#filter, this.#limit] = [deps, keyId, filter, limit];
  }

  async from(after: string | undefined): Promise<FoundAttempts> {
    const { since, until } = this.#filter;
    const [last, seen] = after?.split(".") ?? [until === undefined ? undefined : ordinalFloor(until)];
    const place = { keyId: this.#keyId, ordinal: last };
    // Begins with the event in which the last page ended, when it did.
    const begin = last === undefined ? undefined : seen === undefined ? EVENT.under(place) : EVENT.end(place);
    const found = (next?: string): FoundAttempts =>
      next === undefined ? { items: this.#items } : { items: this.#items, next, searchedTo: ordinalTime(next) };
    let next: string | undefined;
    for await (const page of eventPages(this.#deps.storage, this.#keyId, { after: begin, since })) {
      const events = page.events.filter(({ damaged }) => !damaged).map(({ event }) => event);
      const known = await this.#readFew(events);
      for (const event of events) {
        const end = await this.#event(event, event.ordinal === last ? Number(seen) : 0, known);
        if (end !== undefined) return found(`${event.ordinal}.${end}`);
      }
      next = page.next;
    }
    return found(next);
  }

  /** Adds an event's attempts from one of its deliveries on. @returns where the page ends in it; undefined: it goes on */
  async #event(event: RelayEvent, begin: number, known: DeliveriesOf): Promise<number | undefined> {
    const count = this.#filter.subscriptionId === undefined ? deliveryCount(event) : 1;
    for (let from = begin; from < count;) {
      const found = await this.#slice(event, from, known);
      if (found.length === 0) return undefined;
      for (const delivery of found) {
        from++;
        this.#deliveries++;
        for (const attempt of delivery.attempts.toReversed())
          if (meets(attempt, this.#filter)) this.#items.push({ event, delivery, attempt });
        if (this.#items.length >= this.#limit) return from;
      }
      if (this.#deliveries >= DELIVERIES_READ) return from;
    }
    return undefined;
  }

  /** Reads the deliveries of those events that have few, all at once. */
  async #readFew(events: readonly RelayEvent[]): Promise<DeliveriesOf> {
    const only = this.#filter.subscriptionId;
    const few = events.filter((event) => deliveryCount(event) <= FEW && event.wide === undefined);
    const subs = few.map(({ subscriptionIds: ids }) => (only === undefined ? ids : ids.filter((id) => id === only)));
    const all = await this.#deps.read(few.flatMap((event, i) => (subs[i] ?? []).map((sub) => ({ event, sub }))));
    let end = 0;
    return new Map(few.map((event, i) => [event, all.slice(end, (end += subs[i]?.length ?? 0))]));
  }

  /** Reads a part of the deliveries of an event, in the order of its list; none when that list is damaged. */
  async #slice(event: RelayEvent, from: number, known: DeliveriesOf): Promise<readonly Delivery[]> {
    const { read, recipients } = this.#deps;
    const only = this.#filter.subscriptionId;
    const own = known.get(event);
    if (own !== undefined) return own.slice(from);
    if (only === undefined)
      return await read(((await unlessUnreadable(recipients.slice(event, from, SLICE))) ?? []).map(pairOf(event)));
    const has = from === 0 && (await unlessUnreadable(recipients.has(event, only))) === true;
    return has ? await read([{ event, sub: only }]) : [];
  }
}

/** Returns true when an attempt is as all of the given fields ask. */
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
