/** What must hold of the rows of wide events: their state, their snapshots, and the line that stands for what is not written yet. */
import { StorageError } from "../model/errors.ts";
import { decodeEvent, type RelayEvent } from "../model/event.ts";
import * as keys from "../model/keys.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { parseFanout } from "../records/fanout-row.ts";
import { createRecipients, decodeMembers, everyRecipient, type Recipients } from "../records/recipients.ts";
import { isLiveText } from "../records/snapshots.ts";

const known = new WeakMap<Readable, Recipients>();

export type Readable = Pick<Storage, "getItem" | "getMany" | "range">;

/** Of one storage, so that a snapshot is read once for many events. */
export function recipientsOf(storage: Readable): Recipients {
  let recipients = known.get(storage);
  if (recipients === undefined) known.set(storage, (recipients = createRecipients(storage)));
  return recipients;
}

/** The subscriptions of an event whose deliveries must be there, and of those that are not written yet how many. */
export async function recipientsNow(
  event: RelayEvent,
  storage: Readable,
): Promise<{ readonly written: readonly string[]; readonly unwritten: number }> {
  const { keyId, ordinal, acceptedAt, wide } = event;
  if (wide === undefined) return { written: event.subscriptionIds, unwritten: 0 };
  // The line first: what it says is written stays written.
  const at = keys.dueKey({ subscriptionId: keys.fanoutLane(keyId), dueAt: acceptedAt, ordinal });
  const line = await storage.getItem(at);
  const done = line === undefined ? wide.count : keys.parseDue(at, line).attempts;
  const ids: string[] = [];
  for await (const page of everyRecipient(recipientsOf(storage), event)) ids.push(...page.map(({ id }) => id));
  const later = event.subscriptionIds.length;
  return { written: [...ids.slice(0, done), ...ids.slice(ids.length - later)], unwritten: wide.count - done };
}

/** True for a delivery without event that retention is about to remove. */
export async function isRemoving(storage: Readable, keyId: string, ordinal: string): Promise<boolean> {
  const row = await storage.getItem(keys.fanoutKey(keyId, ordinal));
  return row !== undefined && parseFanout(row).state === "removing";
}

export async function checkFanout({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const row = parseFanout(value);
  const [, keyId = "", ordinal = ""] = key.split(":");
  const [text, header] = await storage.getMany([`event:${keyId}:${ordinal}`, `snapshot:${keyId}:${row.snapshot}`]);
  if (header === undefined) return "uses a snapshot that is not there";
  if (row.state === "removing") return text === undefined ? undefined : "is being removed, but its event is there";
  if (text === undefined) return "belongs to an event that is not there";
  return decodeEvent(text).wide?.snapshot === row.snapshot ? undefined : "says something else than its event";
}

export async function checkSnapshot({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  if (!isLiveText(value)) return value === "writing" || value.startsWith("closing ") ? undefined : "cannot be read";
  const [, keyId = "", snapshot = ""] = key.split(":");
  try {
    // Key ids are told apart as they stand in keys: nothing is looked up by this one.
    await createRecipients(storage).members(keyId, { snapshot, count: Number(value.slice("live ".length)) });
    return undefined;
  } catch (error) {
    if (error instanceof StorageError && error.fault === "broken") return "is not whole";
    throw error;
  }
}

export async function checkMembers({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  decodeMembers(value);
  const [, keyId = "", snapshot = ""] = key.split(":");
  const header = await storage.getItem(`snapshot:${keyId}:${snapshot}`);
  return header === undefined ? "belongs to a snapshot that is not there" : undefined;
}

/** The line that stands for the deliveries of a wide event that are not written yet. */
export async function checkFanoutLine({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { keyId, subscriptionId, ordinal, dueAt, generation: left, attempts: written } = keys.parseDue(key, value);
  const text = await storage.getItem(keys.eventKey(keyId, ordinal));
  if (text === undefined) return "belongs to an event that is not there";
  const { wide, acceptedAt } = decodeEvent(text);
  if (wide === undefined || subscriptionId !== keys.fanoutLane(keyId)) return "belongs to an event that is not wide";
  return wide.count === written + left && dueAt === acceptedAt ? undefined : "says something else than its event";
}
