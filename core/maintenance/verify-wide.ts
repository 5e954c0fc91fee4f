/** Checks the rows of wide events: their state, their snapshots, and the line that stands for unwritten deliveries. */
import { StorageError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { DUE, EVENT, FANOUT, fanoutQueue, MEMBERS, SNAPSHOT } from "../model/schema.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { createRecipients, everyRecipient, type Recipients } from "../records/recipients.ts";
import { isLiveText } from "../records/snapshots.ts";

const known = new WeakMap<Readable, Recipients>();

export type Readable = Pick<Storage, "getItem" | "getMany" | "range">;

/** Returns a reader for one storage, so that a snapshot is read once for many events. */
export function recipientsOf(storage: Readable): Recipients {
  let recipients = known.get(storage);
  if (recipients === undefined) known.set(storage, (recipients = createRecipients(storage)));
  return recipients;
}

/** Returns the subscriptions of an event whose deliveries must exist, and how many are not written yet. */
export async function recipientsNow(
  event: RelayEvent,
  storage: Readable,
): Promise<{ readonly written: readonly string[]; readonly unwritten: number }> {
  const { keyId, ordinal, acceptedAt, wide } = event;
  if (wide === undefined) return { written: event.subscriptionIds, unwritten: 0 };
  // The line first: what it reports as written stays written.
  const at = DUE.key({ subscriptionId: fanoutQueue(keyId), dueAt: acceptedAt, ordinal });
  const line = await storage.getItem(at);
  const done = line === undefined ? wide.count : DUE.orThrow(line, at).attempts;
  const ids: string[] = [];
  for await (const page of everyRecipient(recipientsOf(storage), event)) ids.push(...page.map(({ id }) => id));
  const later = event.subscriptionIds.length;
  return { written: [...ids.slice(0, done), ...ids.slice(ids.length - later)], unwritten: wide.count - done };
}

export async function checkFanout({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const row = FANOUT.orThrow(value);
  const id = FANOUT.id(key);
  const [text, header] = await storage.getMany([EVENT.key(id), SNAPSHOT.key({ keyId: id.keyId, id: row.snapshot })]);
  if (header === undefined) return "uses a snapshot that does not exist";
  if (row.state === "removing") return text === undefined ? undefined : "is being removed, but its event still exists";
  if (text === undefined) return "belongs to an event that does not exist";
  return EVENT.orThrow(text).wide?.snapshot === row.snapshot ? undefined : "disagrees with its event";
}

export async function checkSnapshot({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  if (!isLiveText(value)) return value === "writing" || value.startsWith("closing ") ? undefined : "cannot be read";
  const { keyId, id: snapshot } = SNAPSHOT.id(key);
  try {
    await createRecipients(storage).members(keyId, { snapshot, count: Number(value.slice("live ".length)) });
    return undefined;
  } catch (error) {
    if (error instanceof StorageError && error.fault === "broken") return "is incomplete";
    throw error;
  }
}

export async function checkMembers({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  MEMBERS.orThrow(value);
  const header = await storage.getItem(SNAPSHOT.key(MEMBERS.id(key)));
  return header === undefined ? "belongs to a snapshot that does not exist" : undefined;
}

/** Checks the line that stands for the unwritten deliveries of a wide event. */
export async function checkFanoutLine({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { keyId, subscriptionId, ordinal, dueAt, generation: left, attempts: written } = DUE.orThrow(value, key);
  const text = await storage.getItem(EVENT.key({ keyId, ordinal }));
  if (text === undefined) return "belongs to an event that does not exist";
  const { wide, acceptedAt } = EVENT.orThrow(text);
  if (wide === undefined || subscriptionId !== fanoutQueue(keyId)) return "belongs to an event that is not wide";
  return wide.count === written + left && dueAt === acceptedAt ? undefined : "disagrees with its event";
}
