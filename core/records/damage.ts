/** Reads damaged records without harm to others, and says what is still known of them. */
import { setNewest } from "../lib/bounded-map.ts";
import { eventStatus, type Delivery, type EventStatus } from "../model/delivery.ts";
import { DamagedRecordError, StorageError, type RecordKind } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { type AnyPart, DAMAGED, type Damaged, type IdOf, type Kind, unlessDamaged } from "../model/kind.ts";
import { DELIVERY, EVENT, SUBSCRIPTION } from "../model/schema.ts";
import { isEventId, isEventName } from "../model/names.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";

type Readable = Pick<Storage, "getItem">;

/** Reads one record. @throws StorageError */
export async function readOne<const P extends readonly AnyPart[], T>(
  storage: Readable,
  kind: Kind<P, T>,
  id: IdOf<P>,
): Promise<T | Damaged | undefined> {
  const key = kind.key(id);
  return kind.read(await getText(storage, key), key);
}

/**
 * Does the same for who cannot go on without it.
 * @throws DamagedRecordError whose cause is the StorageError, when the storage itself finds this record broken
 */
export async function readOrThrow<const P extends readonly AnyPart[], T>(
  storage: Readable,
  kind: Kind<P, T>,
  id: IdOf<P>,
): Promise<T | undefined> {
  const key = kind.key(id);
  const text = await storage.getItem(key).catch((cause: unknown) => {
    if (!isBroken(cause)) throw cause;
    throw new DamagedRecordError(kind.prefix as RecordKind, "unreadable", key, { cause });
  });
  return text === undefined ? undefined : kind.orThrow(text, key);
}

/** Reads the text of a record; empty, which no record is, when the storage finds it broken. */
export const getText = (storage: Readable, key: string): Promise<string | undefined> =>
  storage.getItem(key).catch((error: unknown) => (isBroken(error) ? "" : Promise.reject(error)));

/** Does the same for many, in the order of `keys`. */
export async function readTexts(
  storage: Pick<Storage, "getItem" | "getMany">,
  keys: readonly string[],
): Promise<readonly (string | undefined)[]> {
  try {
    return await storage.getMany(keys);
  } catch (error) {
    if (!isBroken(error)) throw error;
    return Promise.all(keys.map((key) => getText(storage, key)));
  }
}

const isBroken = (error: unknown): boolean => error instanceof StorageError && error.fault === "broken";

/** Returns true when a stored record cannot be read, so that the same would fail again. */
export const isDamage = (error: unknown): error is Error =>
  isBroken(error) || error instanceof DamagedRecordError || error instanceof SyntaxError;

/** Returns what `work` resolves to, or `undefined` when it needs a damaged record. @param onDamage called when it does */
export async function unlessUnreadable<T>(
  work: Promise<T>,
  onDamage?: (error: unknown) => void,
): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (!isDamage(error)) throw error;
    onDamage?.(error);
    return undefined;
  }
}

/** The event of a record, or an outline of it when the record is damaged. */
export interface ReadEvent {
  readonly event: RelayEvent;
  readonly damaged: boolean;
}

/** @param text the record's text; `undefined` when it is missing or cannot be read */
export function readEvent(keyId: string, ordinal: string, text: string | undefined): ReadEvent {
  const event = EVENT.read(text ?? "", EVENT.key({ keyId, ordinal }));
  return event === DAMAGED ? { event: outlineOf(keyId, ordinal, text), damaged: true } : { event, damaged: false };
}

/** Does the same for one that is in the storage. @throws StorageError */
export const loadEvent = async (storage: Readable, keyId: string, ordinal: string): Promise<ReadEvent> =>
  readEvent(keyId, ordinal, await getText(storage, EVENT.key({ keyId, ordinal })));

/** Returns what is shown of a damaged event. Never send or store it: any character may be wrong. */
function outlineOf(keyId: string, ordinal: string, text = ""): RelayEvent {
  const at = ordinalTime(ordinal);
  const { id, type, subs } = headOf(text);
  return {
    id: typeof id === "string" && isEventId(id) ? id : `evt_${ordinal}`,
    type: typeof type === "string" && isEventName(type) ? type : "unknown",
    keyId,
    ordinal,
    createdAt: at,
    acceptedAt: at,
    subscriptionIds: Array.isArray(subs) ? subs.filter((sub) => typeof sub === "string" && SUB.test(sub)) : [],
    body: "",
  };
}

/** Derives the event's status. A damaged event without known deliveries counts as failed. */
export function statusOf({ event, damaged }: ReadEvent, deliveries: readonly Pick<Delivery, "status">[]): EventStatus {
  if (damaged && event.subscriptionIds.length === 0) return "failed";
  return eventStatus(deliveries.map(({ status }) => status));
}

const SUB = /^sub_[0-9a-z]+$/;

function headOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const head: unknown = JSON.parse(text.slice(0, Math.max(0, text.indexOf("\n"))));
    return typeof head === "object" && head !== null ? (head as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Returns what is shown for a damaged delivery: that it failed, and why. Its attempts are lost. */
export const damagedDelivery = (
  event: Pick<RelayEvent, "id" | "keyId" | "ordinal">,
  subscriptionId: string,
  cycle = 0,
): Delivery => ({
  keyId: event.keyId,
  eventId: event.id,
  ordinal: event.ordinal,
  subscriptionId,
  status: "failed",
  reason: "record_damaged",
  cycle,
  generation: 0,
  attempts: [],
  updatedAt: ordinalTime(event.ordinal),
});

/** Decodes the delivery of a record, or returns what is shown for a damaged one. */
export const readRecord = (
  text: string,
  event: Pick<RelayEvent, "id" | "keyId" | "ordinal">,
  subscriptionId: string,
): Delivery =>
  unlessDamaged(DELIVERY.read(text, DELIVERY.key({ subscriptionId, ordinal: event.ordinal }))) ??
  damagedDelivery(event, subscriptionId);

const HELD = 10_000;

/** Reports damaged records of subscriptions: counts each, and names it in the log, once. */
export function createDamageReport({
  log,
  metrics,
}: {
  readonly log: Pick<Log, "error">;
  readonly metrics: Pick<Metrics, "count">;
}): (error: DamagedRecordError) => void {
  const reported = new Map<string, true>();

  return ({ kind, key, damage }: DamagedRecordError) => {
    const name = `${damage} ${key}`;
    if (reported.has(name)) return;
    setNewest(reported, name, true, HELD);
    metrics.count("records_damaged", { kind });
    const { keyId, id: subscriptionId } = SUBSCRIPTION.id(key);
    log.error("a stored record is damaged", {
      keyId,
      subscriptionId,
      kind,
      key,
      fault: damage,
      detail: damage === "sealed" ? SEALED : UNUSABLE,
    });
  };
}

const UNUSABLE = "each event of its key fails for it, until it is deleted and created again";
const SEALED =
  "nothing can be signed for it, until its secret is rotated without an overlap, or it is deleted and created again";
