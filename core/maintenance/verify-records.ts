/** Checks stored records by key prefix: each can be read, and agrees with the records at both ends of its links. */
import type { Attempt } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { bodyData, type RelayEvent } from "../model/event.ts";
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
  FANOUT_LINES,
  KINDS,
  OVERLAP,
  STATS,
  SUBSCRIPTION,
  WAITING,
} from "../model/schema.ts";
import { isLive, MOST_ATTEMPTS } from "../model/subscription.ts";
import type { Entry } from "../ports/storage.ts";
import { readEvent, readRecord } from "../records/damage.ts";
import { erasedAt } from "../records/erased-id.ts";
import { everyEntry } from "../records/every-entry.ts";
import { readSubscription } from "../records/subscription-record.ts";
import { isRemoving } from "../records/fanout-row.ts";
import { checkHeld, checkSequence, checkWaiting } from "./verify-order.ts";
import {
  checkFanout,
  checkFanoutLine,
  checkMembers,
  checkSnapshot,
  recipientsNow,
  recipientsOf,
  type Readable,
} from "./verify-wide.ts";

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

/** Whether an event has a delivery for the subscription. A damaged event is reported at its own key and agrees here. */
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
