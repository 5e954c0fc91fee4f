/** Decides what retention does with events, a page at a time: delete now with which changes, judge again later, or keep. */
import { eventStatus, type DeliveryStatus } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { eventOrdinal } from "../model/ids.ts";
import { DAMAGED } from "../model/kind.ts";
import { DELIVERY, EVENT, EVENT_ID, FAILED } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readTexts, unlessUnreadable } from "../records/damage.ts";
import { keepOf, type RetentionOptions } from "./options.ts";
import { attemptRemovals } from "./remove-delivery.ts";

export interface StoredEvent {
  readonly event: RelayEvent;
  readonly text: string;
}

type RetentionVerdict =
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

/** Called with an event that must stay because a record that it needs cannot be read. */
type Unreadable = (key: string, error: unknown) => void;

export type Judge = (
  page: readonly StoredEvent[],
  options: RetentionOptions,
  unreadable: Unreadable,
) => Promise<readonly RetentionVerdict[]>;

export function createEventJudge(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly now: () => number;
}): Judge {
  const { storage, now } = deps;

  const again = (): RetentionVerdict => ({
    do: "later",
    at: Math.floor((now() + PENDING_AGAIN_MS) / HOUR_MS) * HOUR_MS,
  });

  async function read(keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    const values: (string | undefined)[] = [];
    for (let at = 0; at < keys.length; at += KEYS_READ)
      for (const value of await readTexts(storage, keys.slice(at, at + KEYS_READ))) values.push(value);
    return values;
  }

  async function partOf(key: string, text: string | undefined): Promise<Part> {
    // Without a record only the acceptance has been written.
    if (text === undefined) return PENDING;
    const delivery = DELIVERY.read(text, key);
    if (delivery === DAMAGED) return UNKNOWN;
    const { status, subscriptionId, ordinal, cycle, updatedAt } = delivery;
    if (status === "pending") return PENDING;
    // Only if unchanged since it was read: a replay that comes meanwhile wins.
    const changes: Change[] = [{ op: "delete", key, if: text }];
    if (status === "failed") changes.push(FAILED.delete({ subscriptionId, ordinal }));
    if (cycle > 0) changes.push(...(await attemptRemovals(storage, delivery)));
    return { status, changes, endedAt: updatedAt };
  }

  function verdict({ event, text }: StoredEvent, parts: readonly Part[], options: RetentionOptions): RetentionVerdict {
    if (parts.some((part) => part.damaged === true)) return { do: "keep" };
    const status = eventStatus(parts.map((part) => part.status));
    if (status === "pending") return again();
    const { failedAfterMs, deliveredAfterMs } = keepOf(options, event.keyId, event.type);
    const keepMs = status === "failed" ? failedAfterMs : deliveredAfterMs;
    if (keepMs === undefined) return { do: "keep" };
    const endedAt = Math.max(event.acceptedAt, ...parts.map((part) => part.endedAt));
    const goesAt = endedAt + keepMs;
    if (goesAt > now()) return { do: "later", at: goesAt };
    const changes: Change[] = [EVENT.delete(event, text)];
    if (eventOrdinal(event.id) !== event.ordinal) changes.push(EVENT_ID.delete(event));
    for (const part of parts) for (const change of part.changes) changes.push(change);
    return { do: "remove", changes };
  }

  return async (page, options, unreadable) => {
    const keys = page.flatMap(({ event }) =>
      event.subscriptionIds.map((id) => DELIVERY.key({ subscriptionId: id, ordinal: event.ordinal })),
    );
    const texts = await read(keys);
    const textOf = new Map(keys.map((key, i) => [key, texts[i]]));
    const judged = page.map(async (one) => {
      const { keyId, ordinal, subscriptionIds } = one.event;
      const own = subscriptionIds.map((id) => DELIVERY.key({ subscriptionId: id, ordinal }));
      const parts = await unlessUnreadable(Promise.all(own.map((key) => partOf(key, textOf.get(key)))), (error) =>
        unreadable(EVENT.key({ keyId, ordinal }), error),
      );
      return parts === undefined ? again() : verdict(one, parts, options);
    });
    return await Promise.all(judged);
  };
}

const PENDING: Part = { status: "pending", endedAt: 0, changes: [] };
/** Nobody can say whether it has ended, or what else belongs to it. */
const UNKNOWN: Part = { status: "failed", endedAt: 0, changes: [], damaged: true };
