/**
 * Reads and writes the two rows that each sequence of an ordered subscription has: whether it is busy with the number of
 * deliveries that have entered it, and the number of those that have left. A damaged one is rebuilt from the deliveries
 * themselves, so that it stops nobody.
 */
import { DAMAGED } from "../model/kind.ts";
import { DUE, HELD, PASSED, SEQUENCE, type SequenceRow, WAITING } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { everyEntry, everyPage } from "./every-entry.ts";

const PAGE = 500;

export interface SequenceId {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly sequence: number;
}

/** A sequence that nobody has entered yet. */
export const NEW: SequenceRow = { busy: false, entered: 0 };

/** Returns true when this delivery holds up its sequence. @param held the row of who holds it up */
export function holdsIt(held: string | undefined, ordinal: string): boolean {
  const row = HELD.read(held);
  return row !== undefined && row !== DAMAGED && row.ordinal === ordinal;
}

/**
 * Finds the deliveries whose turn it is, by sequence: their places. Reads every due line of the subscription.
 * @param damaged called for a line that does not say whose turn it is
 */
async function headsOf(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
  damaged?: () => void,
): Promise<Map<number, number>> {
  const heads = new Map<number, number>();
  for await (const { key, value } of everyEntry(storage, DUE.under({ subscriptionId }))) {
    const line = DUE.orThrow(value, key);
    if (line.order !== undefined) heads.set(line.order.sequence, line.order.place);
    if (line.damaged !== undefined) damaged?.();
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
  const passed = PASSED.read(left) ?? 0;
  return { busy, entered: Math.max((passed === DAMAGED ? 0 : passed) + inside, place, head ?? 0) };
}

/**
 * Finds the sequences of a subscription that are busy although none of their deliveries is in the due index, or held.
 * @param also one in which nobody may know that deliveries wait: its row is missing or wrong
 * @param ending whether a damaged line is being ended: otherwise who claims it ends a turn, and none is found here
 */
export async function findStuck(
  storage: Pick<Storage, "getMany" | "range">,
  keyId: string,
  subscriptionId: string,
  { also, ending = false }: { readonly also?: number; readonly ending?: boolean } = {},
): Promise<readonly number[]> {
  const rows = await storage.range(SEQUENCE.under({ keyId, subscriptionId }), { limit: PAGE });
  const busy = rows.filter(({ key, value }) => {
    const row = SEQUENCE.read(value, key);
    return row === DAMAGED || row?.busy === true;
  });
  const sequences = new Set(busy.map(({ key }) => SEQUENCE.id(key).sequence));
  if (
    also !== undefined &&
    (await storage.range(WAITING.under({ subscriptionId, sequence: also }), { limit: 1 })).length > 0
  )
    sequences.add(also);
  if (sequences.size === 0) return [];
  const each = [...sequences];
  // Who holds it up first: a replay makes the line of a held one in the commit that ends its row.
  const held = await storage.getMany(each.map((sequence) => HELD.key({ subscriptionId, sequence })));
  let damaged = false;
  const heads = await headsOf(storage, subscriptionId, () => (damaged = true));
  return damaged && !ending ? [] : each.filter((sequence, i) => held[i] === undefined && !heads.has(sequence));
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
      const row = SEQUENCE.read(value);
      const passed = PASSED.read(left[i]) ?? 0;
      if (row === DAMAGED || passed === DAMAGED) sum += await countIn(storage, SEQUENCE.id(key));
      // One is the head.
      else if (row.busy) sum += Math.max(0, row.entered - passed - 1);
    }
  }
  return sum;
}
