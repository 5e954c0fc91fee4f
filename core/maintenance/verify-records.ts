/** Checks stored records by key prefix: each can be read, and agrees with the records at both ends of its links. */
import type { Attempt } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { bodyData, type RelayEvent } from "../model/event.ts";
import { StorageError } from "../model/errors.ts";
import { DAMAGED } from "../model/kind.ts";
import {
  ATTEMPTS,
  COUNT,
  DELIVERY,
  DUE,
  EVENT,
  EVENT_ID,
  EXPIRY,
  FAILED,
  FANOUT,
  FANOUT_LINES,
  fanoutQueue,
  HELD,
  KINDS,
  MEMBERS,
  OVERLAP,
  SEQUENCE,
  SNAPSHOT,
  STATS,
  SUBSCRIPTION,
  WAITING,
} from "../model/schema.ts";
import { isLive, MOST_ATTEMPTS } from "../model/subscription.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { readEvent, readRecord } from "../records/damage.ts";
import { erasedAt } from "../records/erased-id.ts";
import { everyEntry } from "../records/every-entry.ts";
import { isRemoving } from "../records/fanout-row.ts";
import { createRecipients, everyRecipient, type Recipients } from "../records/recipients.ts";
import { countOf } from "../records/snapshots.ts";
import { readSubscription } from "../records/subscription-record.ts";

export type Readable = Pick<Storage, "getItem" | "getMany" | "range">;

/** Returns what is wrong with a record. A DamagedRecordError, SyntaxError or TypeError means that it cannot be read. */
export type Check = (entry: Entry, storage: Readable) => Promise<string | undefined> | string | undefined;

/** Checks an event with all of its deliveries; one without an attempt is built from its due line. */
export async function checkEvent(
  { key, value }: Entry,
  storage: Readable,
  each?: (event: RelayEvent, deliveries: readonly (Delivery | undefined)[]) => void,
): Promise<string | undefined> {
  const event = EVENT.orThrow(value, key);
  const { ordinal } = event;
  JSON.parse(event.body);
  if (bodyData(event) === "") return "has no data";
  const own = event.id === `evt_${ordinal}` ? undefined : EVENT_ID.key(event);
  const { written, unwritten } = await recipientsNow(event, storage);
  const wanted = written.flatMap((sub) => [
    DELIVERY.key({ subscriptionId: sub, ordinal }),
    DUE.key({ subscriptionId: sub, dueAt: event.acceptedAt, ordinal }),
  ]);
  const rows = await storage.getMany(own === undefined ? wanted : [...wanted, own]);
  const deliveries: (Delivery | undefined)[] = [];
  for (const [i, sub] of written.entries()) {
    const text = rows[2 * i];
    if (text === undefined && rows[2 * i + 1] === undefined) return `has neither a delivery nor a due line for ${sub}`;
    // A damaged record is reported where it is stored.
    deliveries.push(text === undefined ? undefined : readRecord(text, event, sub));
  }
  for (let i = 0; i < unwritten; i++) deliveries.push(undefined);
  each?.(event, deliveries);
  return own !== undefined && rows.at(-1) !== ordinal ? "is not found by its id" : undefined;
}

/** Returns true when an event has a delivery for the subscription. A damaged event is reported at its own key. */
async function names(
  text: string,
  keyId: string,
  ordinal: string,
  subscriptionId: string,
  storage: Readable,
): Promise<boolean> {
  const { event, damaged } = readEvent(keyId, ordinal, text);
  return damaged || (await recipientsOf(storage).has(event, subscriptionId));
}

function attemptsOf(cycle: number, attempts: readonly Attempt[]): string | undefined {
  if (attempts.length > MOST_ATTEMPTS) return `has ${attempts.length} attempts in one cycle`;
  const odd = attempts.findIndex((attempt, i) => attempt.number !== i + 1 || attempt.cycle !== cycle);
  return odd < 0 ? undefined : `has a gap in its attempts at ${odd + 1}`;
}

async function checkDelivery({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const delivery = DELIVERY.orThrow(value, key);
  const { subscriptionId, ordinal, keyId, status, nextAttemptAt, cycle, order } = delivery;
  const dueAt = nextAttemptAt ?? 0;
  const [event, failed, due, waiting] = await storage.getMany([
    EVENT.key({ keyId, ordinal }),
    FAILED.key({ subscriptionId, ordinal }),
    DUE.key({ subscriptionId, dueAt, ordinal }),
    ...(order === undefined ? [] : [WAITING.key({ subscriptionId, ...order, ordinal })]),
  ]);
  if (event === undefined)
    return (await isRemoving(storage, keyId, ordinal)) ? undefined : "belongs to an event that does not exist";
  if (!(await names(event, keyId, ordinal, subscriptionId, storage))) return "is not among its event's deliveries";
  if ((status === "failed") !== (failed !== undefined))
    return failed === undefined
      ? "has failed, but is not in the index of failed deliveries"
      : `is ${status}, but is in the index of failed deliveries`;
  if (status === "pending" && nextAttemptAt === undefined) return "is pending, but has no due time";
  if (status === "pending" && (due ?? waiting) === undefined)
    return order === undefined
      ? "is pending, but is not in the due index"
      : "is pending, but is neither in the due index nor waits for its turn";
  return attemptsOf(cycle, delivery.attempts);
}

async function checkDue(entry: Entry, storage: Readable): Promise<string | undefined> {
  const { key, value } = entry;
  if (key.startsWith(FANOUT_LINES)) return await checkFanoutLine(entry, storage);
  const { keyId, ordinal, subscriptionId, cycle, attempts, generation, dueAt, order, damaged } = DUE.orThrow(
    value,
    key,
  );
  if (damaged !== undefined) return "cannot be read";
  const [event, text] = await storage.getMany([
    EVENT.key({ keyId, ordinal }),
    DELIVERY.key({ subscriptionId, ordinal }),
  ]);
  if (event === undefined)
    return (await isRemoving(storage, keyId, ordinal)) ? undefined : "belongs to an event that does not exist";
  if (!(await names(event, keyId, ordinal, subscriptionId, storage))) return "is not among its event's deliveries";
  if (text === undefined)
    return cycle === 0 && attempts === 0 ? undefined : "was tried before, but its delivery does not exist";
  const delivery = DELIVERY.read(text);
  if (delivery === DAMAGED) return undefined;
  if (delivery.status !== "pending") return `is due, but its delivery is ${delivery.status}`;
  const agrees =
    delivery.nextAttemptAt === dueAt &&
    delivery.cycle === cycle &&
    delivery.attempts.length === attempts &&
    delivery.generation === generation &&
    delivery.order?.place === order?.place;
  return agrees ? undefined : "disagrees with its delivery";
}

async function checkFailed({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { cycle, reason } = FAILED.orThrow(value);
  const delivery = DELIVERY.read(await storage.getItem(DELIVERY.key(FAILED.id(key))));
  if (delivery === undefined) return "names a delivery that does not exist";
  if (delivery === DAMAGED) return undefined;
  if (delivery.status !== "failed") return `names a delivery that is ${delivery.status}`;
  return delivery.cycle === cycle && delivery.reason === reason ? undefined : "disagrees with its delivery";
}

async function checkAttempts({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const ended = ATTEMPTS.orThrow(value, key);
  const delivery = DELIVERY.read(await storage.getItem(DELIVERY.key(ended)));
  if (delivery === undefined) return "belongs to a delivery that does not exist";
  if (delivery !== DAMAGED && delivery.cycle <= ended.cycle) return "is of a cycle that has not ended";
  return attemptsOf(ended.cycle, ended.attempts);
}

async function checkEventId({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  if (erasedAt(value) !== undefined) return undefined;
  const { keyId } = EVENT_ID.id(key);
  const text = await storage.getItem(EVENT.key({ keyId, ordinal: value }));
  if (text === undefined) return "names an event that does not exist";
  const event = EVENT.read(text);
  return event === DAMAGED || EVENT_ID.key(event) === key ? undefined : "names an event of another id";
}

async function checkCount({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const prefix = SUBSCRIPTION.under(COUNT.id(key));
  let live = 0;
  // One that is damaged is reported where it is stored, and counts until it is deleted.
  for await (const entry of everyEntry(storage, prefix)) if (isLive(readSubscription(entry.value, entry.key))) live++;
  return String(live) === value ? undefined : `says ${value}, but there are ${live} live subscriptions`;
}

// Wide events: their state, their snapshots, and the line of their unwritten deliveries.

const known = new WeakMap<Readable, Recipients>();

/** Returns a reader for one storage, so that a snapshot is read once for many events. */
function recipientsOf(storage: Readable): Recipients {
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

async function checkFanout({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const row = FANOUT.orThrow(value);
  const id = FANOUT.id(key);
  const [text, header] = await storage.getMany([EVENT.key(id), SNAPSHOT.key({ keyId: id.keyId, id: row.snapshot })]);
  if (header === undefined) return "uses a snapshot that does not exist";
  if (row.state === "removing") return text === undefined ? undefined : "is being removed, but its event still exists";
  if (text === undefined) return "belongs to an event that does not exist";
  return EVENT.orThrow(text).wide?.snapshot === row.snapshot ? undefined : "disagrees with its event";
}

async function checkSnapshot({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const count = countOf(value);
  if (count === undefined) return value === "writing" || value.startsWith("closing ") ? undefined : "cannot be read";
  const { keyId, id: snapshot } = SNAPSHOT.id(key);
  try {
    await createRecipients(storage).members(keyId, { snapshot, count });
    return undefined;
  } catch (error) {
    if (error instanceof StorageError && error.fault === "broken") return "is incomplete";
    throw error;
  }
}

async function checkMembers({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  MEMBERS.orThrow(value);
  const header = await storage.getItem(SNAPSHOT.key(MEMBERS.id(key)));
  return header === undefined ? "belongs to a snapshot that does not exist" : undefined;
}

async function checkFanoutLine({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { keyId, subscriptionId, ordinal, dueAt, generation: left, attempts: written } = DUE.orThrow(value, key);
  const text = await storage.getItem(EVENT.key({ keyId, ordinal }));
  if (text === undefined) return "belongs to an event that does not exist";
  const { wide, acceptedAt } = EVENT.orThrow(text);
  if (wide === undefined || subscriptionId !== fanoutQueue(keyId)) return "belongs to an event that is not wide";
  return wide.count === written + left && dueAt === acceptedAt ? undefined : "disagrees with its event";
}

// Ordered subscriptions: who waits, and that each busy sequence has somebody whose turn it is.

async function checkSequence({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { subscriptionId, sequence } = SEQUENCE.id(key);
  const row = SEQUENCE.orThrow(value);
  const [first] = await storage.range(WAITING.under({ subscriptionId, sequence }), { limit: 1 });
  if (!row.busy) return first === undefined ? undefined : "is idle, but deliveries wait in it";
  const held = await storage.getItem(HELD.key({ subscriptionId, sequence }));
  if (held !== undefined) return undefined;
  for await (const line of everyEntry(storage, DUE.under({ subscriptionId }))) {
    const due = DUE.orThrow(line.value, line.key);
    if (due.damaged !== undefined || due.order?.sequence === sequence) return undefined;
  }
  return "is busy, but it is nobody's turn";
}

async function checkWaiting({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { cycle, order, ...id } = WAITING.orThrow(value, key);
  const delivery = DELIVERY.read(await storage.getItem(DELIVERY.key(id)));
  if (delivery === undefined) return "belongs to a delivery that does not exist";
  if (delivery === DAMAGED) return undefined;
  if (delivery.status !== "pending") return `waits, but its delivery is ${delivery.status}`;
  const { keyId, sequence = 0 } = { ...delivery, ...order };
  if ((await storage.getItem(SEQUENCE.key({ ...id, keyId, sequence }))) === undefined)
    return "waits in a sequence that does not exist";
  return delivery.cycle === cycle && delivery.order?.place === order?.place ? undefined : "disagrees with its delivery";
}

async function checkHeld({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const held = HELD.orThrow(value);
  const row = SEQUENCE.read(await storage.getItem(SEQUENCE.key({ ...held, ...HELD.id(key) })));
  // A damaged row is reported where it is stored.
  return row === DAMAGED || row?.busy === true ? undefined : "holds up a sequence that is not busy";
}

const isTime = (value: string): string | undefined => (Number.isFinite(Number(value)) ? undefined : "is not a time");

/** Checks by key prefix; other records need only be ones that can be read. */
export const CHECKS: Readonly<Record<string, Check>> = {
  ...Object.fromEntries(KINDS.map((kind) => [kind.prefix, ({ key, value }: Entry) => void kind.orThrow(value, key)])),
  event: checkEvent,
  count: checkCount,
  delivery: checkDelivery,
  due: checkDue,
  failed: checkFailed,
  attempts: checkAttempts,
  fanout: checkFanout,
  snapshot: checkSnapshot,
  members: checkMembers,
  sequence: checkSequence,
  waiting: checkWaiting,
  held: checkHeld,
  eventid: checkEventId,
  expiry: ({ key }) => (Number.isFinite(EXPIRY.id(key).at) ? undefined : "has no time"),
  idempotency: ({ value }) => void JSON.parse(value),
  stats: ({ key }) => (Number.isFinite(STATS.id(key).at) ? undefined : "cannot be read"),
  health: ({ value }) => isTime(value),
  overlap: ({ key, value }) => (Number.isFinite(OVERLAP.id(key).at) ? isTime(value) : "has no time"),
  key: ({ value }) => isTime(value),
  type: ({ value }) => isTime(value),
  keytype: ({ value }) => isTime(value),
};
