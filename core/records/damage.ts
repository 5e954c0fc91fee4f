/** Damaged records: how one is met without harm to others, and what can still be said of it. */
import { eventStatus, type Delivery, type EventStatus } from "../model/delivery.ts";
import { DamagedRecordError, StorageError, type RecordKind } from "../model/errors.ts";
import { decodeEvent, type RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { deliveryKey, eventKey } from "../model/keys.ts";
import { isEventId, isEventName } from "../model/names.ts";
import type { Storage } from "../ports/storage.ts";
import { decodeDelivery } from "./delivery-records.ts";

type Readable = Pick<Storage, "getItem">;

/**
 * Reads the text of one record.
 * @throws DamagedRecordError whose cause is the StorageError, when the storage itself finds this record broken
 */
export async function readText(storage: Readable, kind: RecordKind, key: string): Promise<string | undefined> {
  try {
    return await storage.getItem(key);
  } catch (cause) {
    if (!isBroken(cause)) throw cause;
    throw new DamagedRecordError(kind, "unreadable", key, { cause });
  }
}

/** What `read` gives; `undefined` when the record is damaged. */
export function unlessDamaged<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof DamagedRecordError) return undefined;
    throw error;
  }
}

/** As `unlessDamaged`, for what is read later. */
export async function unlessDamagedLater<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof DamagedRecordError) return undefined;
    throw error;
  }
}

/** Texts in the order of `keys`. One that the storage finds broken reads as a text that is no record. */
export async function readTexts(
  storage: Pick<Storage, "getItem" | "getMany">,
  keys: readonly string[],
): Promise<readonly (string | undefined)[]> {
  try {
    return await storage.getMany(keys);
  } catch (error) {
    if (!isBroken(error)) throw error;
    return Promise.all(
      keys.map((key) => storage.getItem(key).catch((one: unknown) => (isBroken(one) ? "" : Promise.reject(one)))),
    );
  }
}

const isBroken = (error: unknown): boolean => error instanceof StorageError && error.fault === "broken";

/** The event of a record, or what can be said of it when the record is damaged. */
export interface ReadEvent {
  readonly event: RelayEvent;
  readonly damaged: boolean;
}

/** @param text the record's; `undefined` when it is missing or cannot be read */
export function readEvent(keyId: string, ordinal: string, text: string | undefined): ReadEvent {
  const key = eventKey(keyId, ordinal);
  const event = text === undefined ? undefined : unlessDamaged(() => decodeEvent(text, key));
  return event === undefined ? { event: outlineOf(keyId, ordinal, text), damaged: true } : { event, damaged: false };
}

/**
 * What is shown in place of a damaged event: its place and time, which its key tells, and of the rest what still looks
 * like it. Never to be sent, nor stored: any character of it may be wrong.
 */
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

/** Of an event that cannot say whose it is, no delivery is known: it counts as failed. */
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

/** What is shown in place of a damaged delivery: that it has failed, and why. Its attempts are lost. */
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

/** The delivery of a record's text, or what is shown in its place. */
export const readRecord = (
  text: string,
  event: Pick<RelayEvent, "id" | "keyId" | "ordinal">,
  subscriptionId: string,
): Delivery =>
  unlessDamaged(() => decodeDelivery(text, deliveryKey(subscriptionId, event.ordinal))) ??
  damagedDelivery(event, subscriptionId);
