/**
 * Reads and writes the two rows that each sequence of an ordered subscription has: whether it is busy with the number of
 * deliveries that have entered it, and the number of those that have left. A damaged one is rebuilt from the deliveries
 * themselves, so that it stops nobody. A third row names the failed delivery that holds it up.
 */
import { summed, withSum } from "../model/checksum.ts";
import { parseDue } from "../model/due.ts";
import { DUE, HELD, PASSED, SEQUENCE, WAITING } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { everyEntry, everyPage } from "./every-entry.ts";

const PAGE = 500;

interface SequenceRow {
  /** True when one of its deliveries is in the due index or held. */
  readonly busy: boolean;
  /** How many deliveries have entered it, and the highest place that was given. */
  readonly entered: number;
}

interface SequenceId {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly sequence: number;
}

export const rowText = ({ busy, entered }: SequenceRow): string => withSum(`${busy ? "busy" : "idle"} ${entered}`);
export const passedText = (passed: number): string => withSum(String(passed));

/** Reads the row; one that is not there yet is idle. `undefined`: it is damaged. */
export function parseRow(text: string | undefined): SequenceRow | undefined {
  if (text === undefined) return { busy: false, entered: 0 };
  const read = /^(busy|idle) (\d{1,15})$/.exec(summed(text) ?? "");
  return read === null ? undefined : { busy: read[1] === "busy", entered: Number(read[2]) };
}

/** Reads how many have left; `undefined`: the row is damaged. */
export function parsePassed(text: string | undefined): number | undefined {
  if (text === undefined) return 0;
  const read = summed(text);
  return read !== undefined && /^\d{1,15}$/.test(read) ? Number(read) : undefined;
}

/** Finds the deliveries whose turn it is, by sequence: their places. Reads every due line of the subscription. */
async function headsOf(storage: Pick<Storage, "range">, subscriptionId: string): Promise<Map<number, number>> {
  const heads = new Map<number, number>();
  for await (const { key, value } of everyEntry(storage, DUE.under({ subscriptionId }))) {
    const { order } = parseDue(key, value);
    if (order !== undefined) heads.set(order.sequence, order.place);
  }
  return heads;
}

/** Rebuilds a damaged row from the deliveries that are in the sequence. @throws StorageError */
export async function rebuildRow(
  storage: Pick<Storage, "getMany" | "range">,
  { keyId, subscriptionId, sequence }: SequenceId,
): Promise<SequenceRow> {
  const [held, left] = await storage.getMany([
    HELD.key({ subscriptionId, sequence }),
    PASSED.key({ keyId, subscriptionId, sequence }),
  ]);
  const [last] = await storage.range(WAITING.under({ subscriptionId, sequence }), { reverse: true, limit: 1 });
  const head = (await headsOf(storage, subscriptionId)).get(sequence);
  const busy = held !== undefined || last !== undefined || head !== undefined;
  const inside = busy ? (await countIn(storage, { subscriptionId, sequence })) + 1 : 0;
  const place = last === undefined ? 0 : WAITING.id(last.key).place;
  return { busy, entered: Math.max((parsePassed(left) ?? 0) + inside, place, head ?? 0) };
}

/**
 * Finds a sequence that is busy although none of its deliveries can be recognised as the one whose turn it is: the line
 * and the record of that one are damaged.
 */
export async function findStuck(
  storage: Pick<Storage, "getMany" | "range">,
  keyId: string,
  subscriptionId: string,
): Promise<number | undefined> {
  const rows = await storage.range(SEQUENCE.under({ keyId, subscriptionId }), { limit: PAGE });
  if (rows.length === 0) return undefined;
  const heads = await headsOf(storage, subscriptionId);
  const sequences = rows.map(({ key }) => SEQUENCE.id(key).sequence);
  const held = await storage.getMany(sequences.map((sequence) => HELD.key({ subscriptionId, sequence })));
  return sequences.find(
    (sequence, i) => parseRow(rows[i]?.value)?.busy !== false && held[i] === undefined && !heads.has(sequence),
  );
}

/** Counts the deliveries that wait in one sequence, one by one. */
export async function countIn(
  storage: Pick<Storage, "range">,
  { subscriptionId, sequence }: Omit<SequenceId, "keyId">,
): Promise<number> {
  let sum = 0;
  for await (const _ of everyEntry(storage, WAITING.under({ subscriptionId, sequence }))) sum++;
  return sum;
}

/** Counts pending deliveries that are not in the due index because they wait for their turn: of one key, or of all. */
export async function countWaiting(
  storage: Pick<Storage, "getMany" | "range">,
  keyId?: string,
  subscriptionId?: string,
): Promise<number> {
  const prefix = SEQUENCE.under({ keyId, subscriptionId });
  let sum = 0;
  for await (const page of everyPage(storage, prefix)) {
    const left = await storage.getMany(page.map(({ key }) => PASSED.key(SEQUENCE.id(key))));
    for (const [i, { key, value }] of page.entries()) {
      const row = parseRow(value);
      const passed = parsePassed(left[i]);
      if (row === undefined || passed === undefined) sum += await countIn(storage, SEQUENCE.id(key));
      // One is the head.
      else if (row.busy) sum += Math.max(0, row.entered - passed - 1);
    }
  }
  return sum;
}

/** The row of a failed delivery that holds up its sequence. */
export interface HeldRow {
  readonly keyId: string;
  readonly ordinal: string;
  readonly place: number;
  /** Epoch ms. */
  readonly since: number;
  readonly eventId: string;
}

export const heldText = ({ keyId, ordinal, place, since, eventId }: HeldRow): string =>
  withSum(`${keyId} ${ordinal} ${place} ${since} ${eventId}`);

/** @returns `undefined` when the row is damaged */
export function parseHeld(text: string): HeldRow | undefined {
  const [keyId = "", ordinal = "", place, since, eventId] = summed(text)?.split(" ") ?? [];
  return eventId === undefined ? undefined : { keyId, ordinal, place: Number(place), since: Number(since), eventId };
}
