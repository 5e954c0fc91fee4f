/** Decides what retention does with events, a page at a time: delete now with which changes, judge again later, or keep. */
import { eventStatus, type Delivery, type DeliveryStatus, type Due } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { eventOrdinal } from "../model/ids.ts";
import { attemptsOf, deliveryKey, dueKey, eventIdKey, eventKey, failedKey, parseDue } from "../model/keys.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { isDamage, readTexts, unlessDamaged } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { decodeDelivery } from "../records/delivery-records.ts";
import { keepOf, type RetentionOptions } from "./options.ts";
import { endedBy } from "../records/ended-by.ts";

/** An event and its record's text. */
export interface StoredEvent {
  readonly event: RelayEvent;
  readonly text: string;
}

export type RetentionVerdict =
  | { readonly do: "remove"; readonly changes: readonly Change[] }
  /** `at` is epoch ms. */
  | { readonly do: "later"; readonly at: number }
  | { readonly do: "keep" };

/** One delivery's part of the decision. */
interface Part {
  readonly status: DeliveryStatus;
  readonly endedAt: number;
  readonly changes: readonly Change[];
  readonly damaged?: true;
}

/** A pending event is judged again after this, ms: within one hour it has one place in the index, however often it is judged. */
const PENDING_AGAIN_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const KEYS_READ = 1_000;

/** Told which event must stay because a record that it needs cannot be read. */
export type Unreadable = (key: string, error: unknown) => void;

type Judge = (
  page: readonly StoredEvent[],
  options: RetentionOptions,
  unreadable: Unreadable,
) => Promise<readonly RetentionVerdict[]>;
type Accepted = Pick<RelayEvent, "keyId" | "ordinal" | "acceptedAt">;

/** @param leastAgeMs nothing is deleted sooner, whatever the options say */
export function createEventJudge(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly subscriptionCache: SubscriptionCache;
  readonly clock: Pick<Clock, "now">;
  readonly leastAgeMs: number;
}): { readonly page: Judge } {
  const { storage, subscriptionCache, clock, leastAgeMs } = deps;

  async function read(keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    const values: (string | undefined)[] = [];
    for (let at = 0; at < keys.length; at += KEYS_READ)
      for (const value of await readTexts(storage, keys.slice(at, at + KEYS_READ))) values.push(value);
    return values;
  }

  async function partsOf(pairs: readonly { readonly event: Accepted; readonly sub: string }[]): Promise<Part[]> {
    const keys = pairs.map(({ event, sub }) => deliveryKey(sub, event.ordinal));
    const texts = await read(keys);
    const known = texts.map((text, i) => (text === undefined ? undefined : recordOf(text, keys[i] as string)));
    const open = [...pairs.keys()].filter((i) => isOpen(known[i]));
    const lineKeys = open.map((i) => {
      const { event, sub } = pairs[i] as (typeof pairs)[number];
      const delivery = known[i];
      const dueAt = (delivery === "damaged" ? undefined : delivery?.nextAttemptAt) ?? event.acceptedAt;
      return dueKey({ subscriptionId: sub, ordinal: event.ordinal, dueAt });
    });
    const lines = await read(lineKeys);
    const dues = new Map(open.map((i, n) => [i, { key: lineKeys[n] as string, value: lines[n] }]));
    return await Promise.all(
      pairs.map(async ({ event, sub: id }, i): Promise<Part> => {
        const delivery = known[i];
        if (delivery === "damaged") return { status: "failed", endedAt: 0, changes: [], damaged: true };
        const text = texts[i];
        const { key: line = "", value: due } = dues.get(i) ?? {};
        const changes: Change[] = [];
        const key = deliveryKey(id, event.ordinal);
        // Only if unchanged since it was read: a replay that comes meanwhile wins.
        changes.push(text === undefined ? { op: "check", key, if: null } : { op: "delete", key, if: text });
        if (due !== undefined) changes.push({ op: "delete", key: line, if: due });
        if (delivery?.status === "failed") changes.push({ op: "delete", key: failedKey(id, event.ordinal) });
        if (delivery !== undefined && delivery.cycle > 0)
          for await (const row of everyEntry(storage, attemptsOf(id, event.ordinal)))
            changes.push({ op: "delete", key: row.key });
        const parsed: Due | undefined = due === undefined ? undefined : parseDue(line, due);
        const sub = await subscriptionCache.get(event.keyId, id);
        // One that goes in order leaves its sequence first, even when it ended with its subscription.
        const inOrder = delivery?.order !== undefined && delivery.status === "pending";
        const status = inOrder
          ? "pending"
          : delivery !== undefined && delivery.status !== "pending"
            ? delivery.status
            : (endedBy(sub, delivery?.generation ?? parsed?.generation ?? 0)?.status ?? "pending");
        return { status, changes, endedAt: delivery?.updatedAt ?? event.acceptedAt };
      }),
    );
  }

  function verdict({ event, text }: StoredEvent, parts: readonly Part[], options: RetentionOptions): RetentionVerdict {
    // Nobody can say whether a damaged delivery has ended, or what else belongs to it.
    if (parts.some((part) => part.damaged === true)) return { do: "keep" };
    const status = eventStatus(parts.map((part) => part.status));
    if (status === "pending")
      return { do: "later", at: Math.floor((clock.now() + PENDING_AGAIN_MS) / HOUR_MS) * HOUR_MS };
    const { failedAfterMs, deliveredAfterMs } = keepOf(options, event.keyId, event.type);
    const keepMs = status === "failed" ? failedAfterMs : deliveredAfterMs;
    if (keepMs === undefined) return { do: "keep" };
    const endedAt = Math.max(event.acceptedAt, ...parts.map((part) => part.endedAt));
    const goesAt = endedAt + Math.max(keepMs, leastAgeMs);
    if (goesAt > clock.now()) return { do: "later", at: goesAt };
    const changes: Change[] = [{ op: "delete", key: eventKey(event.keyId, event.ordinal), if: text }];
    if (eventOrdinal(event.id) !== event.ordinal)
      changes.push({ op: "delete", key: eventIdKey(event.keyId, event.id) });
    for (const part of parts) for (const change of part.changes) changes.push(change);
    return { do: "remove", changes };
  }

  async function all(page: readonly StoredEvent[], options: RetentionOptions): Promise<readonly RetentionVerdict[]> {
    const parts = await partsOf(page.flatMap(({ event }) => event.subscriptionIds.map((sub) => ({ event, sub }))));
    let first = 0;
    return page.map((one) => verdict(one, parts.slice(first, (first += one.event.subscriptionIds.length)), options));
  }

  /** Judges one event. One with a damaged subscription stays, and is judged again after a day. */
  async function one(event: StoredEvent, options: RetentionOptions, unreadable: Unreadable): Promise<RetentionVerdict> {
    try {
      return (await all([event], options))[0] ?? { do: "keep" };
    } catch (error) {
      if (!isDamage(error)) throw error;
      unreadable(eventKey(event.event.keyId, event.event.ordinal), error);
      return { do: "later", at: clock.now() + PENDING_AGAIN_MS };
    }
  }

  return {
    async page(page, options, unreadable) {
      try {
        return await all(page, options);
      } catch (error) {
        if (!isDamage(error)) throw error;
        const verdicts: RetentionVerdict[] = [];
        for (const event of page) verdicts.push(await one(event, options, unreadable));
        return verdicts;
      }
    },
  };
}

const recordOf = (text: string, key: string): Delivery | "damaged" =>
  unlessDamaged(() => decodeDelivery(text, key)) ?? "damaged";

const isOpen = (known: Delivery | "damaged" | undefined): boolean =>
  known === undefined || (known !== "damaged" && known.status === "pending");
