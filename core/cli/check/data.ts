/** Reads every record of a storage and says which cannot be read, and where an index disagrees with what it points to. */
import { endedBy } from "../../flow/standing.ts";
import { decodeDelivery, dueOf, parseFailed } from "../../flow/records.ts";
import { bodyData, decodeEvent } from "../../model/event.ts";
import * as keys from "../../model/keys.ts";
import type { Subscription } from "../../model/subscription.ts";
import type { Entry, Storage } from "../../ports/storage.ts";

export interface Fault {
  readonly key: string;
  readonly message: string;
}

export interface DataReport {
  /** Records read, by shelf. */
  readonly records: Readonly<Record<string, number>>;
  readonly faults: readonly Fault[];
  /** Faults beyond those listed. */
  readonly more: number;
}

const PAGE = 500;
const LISTED = 1_000;

/** What is wrong with a record; nothing when it is in order. A throw says that it cannot be read. */
type Check = (entry: Entry, storage: Storage) => Promise<string | undefined> | string | undefined;

const CHECKS: Readonly<Record<string, Check>> = {
  event({ key, value }) {
    const event = decodeEvent(value);
    if (keys.eventKey(event.keyId, event.ordinal) !== key) return "stands under the key of another event";
    JSON.parse(event.body);
    return bodyData(event) === "" ? "has no data" : undefined;
  },
  async eventid({ key, value }, storage) {
    const [, keyId] = key.split(":");
    const text = await storage.getItem(`event:${keyId}:${value}`);
    if (text === undefined) return "names an event that is not there";
    const event = decodeEvent(text);
    return keys.eventIdKey(event.keyId, event.id) === key ? undefined : "names an event of another id";
  },
  subscription({ key, value }) {
    const sub = JSON.parse(value) as Subscription;
    return keys.subscriptionKey(sub.keyId, sub.id) === key ? undefined : "stands under the key of another subscription";
  },
  async delivery({ key, value }, storage) {
    const delivery = decodeDelivery(value);
    const { subscriptionId, ordinal, keyId, status, nextAttemptAt } = delivery;
    if (keys.deliveryKey(subscriptionId, ordinal) !== key) return "stands under the key of another delivery";
    const [event, sub] = await storage.getMany([
      keys.eventKey(keyId, ordinal),
      keys.subscriptionKey(keyId, subscriptionId),
    ]);
    if (event === undefined) return "belongs to an event that is not there";
    if (status === "failed") {
      const failed = await storage.getItem(keys.failedKey(subscriptionId, ordinal));
      return failed === undefined ? "has failed, but is not in the index of failed ones" : undefined;
    }
    const standing = sub === undefined ? undefined : (JSON.parse(sub) as Subscription);
    if (status !== "pending" || endedBy(standing, delivery.generation) !== undefined) return undefined;
    if (nextAttemptAt === undefined) return "is pending without a time";
    const due = await storage.getItem(keys.dueKey(dueOf(delivery, nextAttemptAt)));
    return due === undefined ? "is pending, but is not in the index of due ones" : undefined;
  },
  async due({ key, value }, storage) {
    const due = keys.parseDue(key, value);
    const { keyId, ordinal, subscriptionId } = due;
    const places = [keys.eventKey(keyId, ordinal), keys.deliveryKey(subscriptionId, ordinal)];
    const [event, delivery] = await storage.getMany(places);
    if (event === undefined) return "belongs to an event that is not there";
    const { status } = delivery === undefined ? { status: "pending" } : decodeDelivery(delivery);
    return status === "pending" ? undefined : `is due, but its delivery is ${status}`;
  },
  async failed({ key, value }, storage) {
    const [, subscriptionId = "", ordinal = ""] = key.split(":");
    const { failedAt, cycle } = parseFailed(value);
    if (!Number.isFinite(failedAt) || !Number.isFinite(cycle)) return "cannot be read";
    const delivery = await storage.getItem(keys.deliveryKey(subscriptionId, ordinal));
    if (delivery === undefined) return "names a delivery that is not there";
    const { status } = decodeDelivery(delivery);
    return status === "failed" ? undefined : `names a delivery that is ${status}`;
  },
  attempts: ({ value }) => (Array.isArray(JSON.parse(value)) ? undefined : "is no list of attempts"),
  idempotency: () => undefined,
  expiry: ({ key }) => (Number.isFinite(keys.parseExpiryKey(key).at) ? undefined : "has no time"),
  audit: ({ value }) => void JSON.parse(value),
  stats: ({ key }) => (keys.parseStatsKey(key) === undefined ? "cannot be read" : undefined),
  health: () => undefined,
  node: () => undefined,
  key: () => undefined,
  type: () => undefined,
  tick: () => undefined,
  meta: () => undefined,
  suspension: () => undefined,
  plugin: () => undefined,
};

/** @param progress told now and then how many records have been read */
export async function checkData(storage: Storage, progress: (read: number) => void): Promise<DataReport> {
  const records: Record<string, number> = {};
  const faults: Fault[] = [];
  let more = 0;
  let read = 0;
  for (const [shelf, check] of Object.entries(CHECKS)) {
    let after: string | undefined;
    for (;;) {
      const page = await storage.range(`${shelf}:`, { limit: PAGE, ...(after !== undefined && { after }) });
      for (const entry of page) {
        const message = await judge(check, entry, storage);
        if (message === undefined) continue;
        if (faults.length < LISTED) faults.push({ key: entry.key, message });
        else more += 1;
      }
      read += page.length;
      records[shelf] = (records[shelf] ?? 0) + page.length;
      progress(read);
      if (page.length < PAGE) break;
      after = page.at(-1)?.key;
    }
  }
  return { records, faults, more };
}

async function judge(check: Check, entry: Entry, storage: Storage): Promise<string | undefined> {
  try {
    return await check(entry, storage);
  } catch (error) {
    // Only what reading a record can throw is a fault of the record; a broken storage ends the check.
    if (error instanceof SyntaxError || error instanceof TypeError) return "cannot be read";
    throw error;
  }
}
