/** Verifies a storage: reads every record, and reports which cannot be read and where an index disagrees. */
import type { Delivery, DeliveryStatus } from "../model/delivery.ts";
import { DamagedRecordError, StorageError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import type { Entry } from "../ports/storage.ts";
import { everyPage } from "../records/every-entry.ts";
import { REPAIRS, type Repairable } from "./repair-records.ts";
import { checkEvent, CHECKS, type Check, type Readable } from "./verify-records.ts";

export interface RecordFault {
  readonly key: string;
  readonly message: string;
}

export interface Verification {
  /** Records read, by key prefix. */
  readonly records: Readonly<Record<string, number>>;
  /** Deliveries of all events by recorded status; one without an attempt is pending. */
  readonly deliveries: Readonly<Record<DeliveryStatus, number>>;
  readonly faults: readonly RecordFault[];
  /** Faults beyond those listed. */
  readonly more: number;
  /** How many faults were repaired; they are not among the others. Absent unless that was asked for. */
  readonly repaired?: number;
}

export interface VerifyOptions {
  /** Called from time to time with the number of records read. */
  readonly progress?: (read: number) => void;
  /** Called for each correct event; a delivery without an attempt has no record. */
  readonly each?: (event: RelayEvent, deliveries: readonly (Delivery | undefined)[]) => void;
  /** Where to make again what other records still say; without it nothing is changed. */
  readonly repair?: Repairable;
  /** Called for each fault that was repaired. */
  readonly repaired?: (fault: RecordFault) => void;
}

const LISTED = 1_000;
const PREFIX = /^([a-z]+):/;

/** @throws StorageError when the storage as a whole does not answer */
export async function verifyStorage(
  storage: Readable,
  { progress, each, repair, repaired }: VerifyOptions = {},
): Promise<Verification> {
  const records: Record<string, number> = {};
  const deliveries = { pending: 0, delivered: 0, failed: 0, cancelled: 0 };
  const faults: RecordFault[] = [];
  let more = 0;
  let repairs = 0;
  let read = 0;

  function count(event: RelayEvent, own: readonly (Delivery | undefined)[]): void {
    for (const delivery of own) deliveries[delivery?.status ?? "pending"]++;
    each?.(event, own);
  }

  const checks: Readonly<Record<string, Check>> = { ...CHECKS, event: (entry, from) => checkEvent(entry, from, count) };

  async function look(entry: Entry): Promise<void> {
    const prefix = PREFIX.exec(entry.key)?.[1] ?? "";
    records[prefix] = (records[prefix] ?? 0) + 1;
    const check = checks[prefix];
    const message = check === undefined ? "has a key that the relay does not use" : await judge(check, entry, storage);
    if (message === undefined) return;
    // While a relay is at work, a record may be older than what it is compared with: only a fault that stays counts.
    if (check !== undefined && !(await stays(CHECKS[prefix] as Check, entry.key, storage))) return;
    if (repair !== undefined && check !== undefined && (await mend(check, prefix, entry, repair))) {
      repairs++;
      repaired?.({ key: entry.key, message });
    } else if (faults.length < LISTED) faults.push({ key: entry.key, message });
    else more++;
  }

  for await (const page of everyPage(storage, "")) {
    for (const entry of page) await look(entry);
    read += page.length;
    progress?.(read);
  }
  return { records, deliveries, faults, more, ...(repair !== undefined && { repaired: repairs }) };
}

/** @returns true when the fault is gone, with what it was about or by other records */
async function mend(check: Check, prefix: string, entry: Entry, storage: Repairable): Promise<boolean> {
  const work = REPAIRS[prefix];
  // What cannot be read says nothing from which to repair it.
  const tried = work === undefined || (await judge(async () => void (await work(entry, storage)), entry, storage));
  return tried === undefined && !(await stays(check, entry.key, storage));
}

async function stays(check: Check, key: string, storage: Readable): Promise<boolean> {
  const value = await readAgain(key, storage);
  return value === "unreadable" || (value !== undefined && (await judge(check, { key, value }, storage)) !== undefined);
}

async function readAgain(key: string, storage: Readable): Promise<string | undefined> {
  try {
    return await storage.getItem(key);
  } catch (error) {
    if (error instanceof StorageError && error.fault === "broken") return "unreadable";
    throw error;
  }
}

async function judge(check: Check, entry: Entry, storage: Readable): Promise<string | undefined> {
  try {
    return await check(entry, storage);
  } catch (error) {
    // Only errors from reading the record are faults of the record; a storage that does not answer ends the
    // verification.
    if (error instanceof DamagedRecordError) return error.message;
    if (error instanceof SyntaxError || error instanceof TypeError) return "cannot be read";
    if (error instanceof StorageError && error.fault === "broken") return `cannot be read: ${error.message}`;
    throw error;
  }
}
