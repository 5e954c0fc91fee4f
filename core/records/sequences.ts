/**
 * Keeps deliveries of ordered subscriptions in order. Of each sequence only one delivery, its head, is in the due index
 * or held; the others wait in the order of their places. So nothing that claims, retries, pauses or recovers has to know
 * of order: a delivery that waits cannot be claimed, on any node.
 *
 * A place is given by the commit that accepts the event, on condition that no other commit gave one meanwhile. So the
 * order of places is the order of commits, whatever the clocks of the nodes say. The commit that ends a head writes the
 * due line of the next. It conflicts with entries only when it found nobody waiting.
 */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { ordinalTime } from "../model/ids.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import { DELIVERY, DUE, HELD, PASSED, SEQUENCE, WAITING } from "../model/schema.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readOne } from "./damage.ts";
import { dueOf, endedChanges, putDue } from "./delivery-records.ts";
import { countIn, holdsIt, NEW, rebuildRow } from "./sequence-rows.ts";

/** The due line of a delivery that goes in order. */
export type OrderedDue = Due & { readonly order: NonNullable<Due["order"]> };

interface Entered {
  /** The lines with their places, in the order in which they were given. */
  readonly placed: readonly OrderedDue[];
  /** Those whose turn it is. */
  readonly heads: readonly OrderedDue[];
  readonly changes: readonly Change[];
}

const rowKeyOf = ({ keyId, subscriptionId, order }: OrderedDue): string =>
  SEQUENCE.key({ keyId, subscriptionId, sequence: order.sequence });

/**
 * Returns what lets deliveries enter their sequences: at the end, or, with a place of their own, at that place. One that
 * holds up its sequence goes at once.
 * @throws StorageError; ConflictError by the commit: then call it again
 */
export async function enterSequences(
  storage: Pick<Storage, "getMany" | "range">,
  entering: readonly OrderedDue[],
): Promise<Entered> {
  if (entering.length === 0) return { placed: [], heads: [], changes: [] };
  const groups = Map.groupBy(entering, rowKeyOf);
  const keys = [...groups].flatMap(([key, [first]]) => {
    const { subscriptionId, order } = first as OrderedDue;
    return [key, HELD.key({ subscriptionId, sequence: order.sequence })];
  });
  const texts = await storage.getMany(keys);
  const placed = new Map<OrderedDue, OrderedDue>();
  const heads: OrderedDue[] = [];
  const changes: Change[] = [];
  for (const [i, lines] of [...groups.values()].entries()) {
    const [was, holding] = [texts[2 * i], texts[2 * i + 1]];
    const { keyId, subscriptionId, order } = lines[0] as OrderedDue;
    const id = { keyId, subscriptionId, sequence: order.sequence };
    const row = SEQUENCE.read(was) ?? NEW;
    let { busy, entered } = row === DAMAGED ? await rebuildRow(storage, id) : row;
    // Those that come back go first, in their old order.
    const ranked = lines.toSorted((a, b) => (a.order.place || Infinity) - (b.order.place || Infinity) || 0);
    for (const line of ranked) {
      const returns = holdsIt(holding, line.ordinal);
      if (!returns) entered++;
      const made = { ...line, order: { ...line.order, place: line.order.place || entered } };
      placed.set(line, made);
      if (returns) changes.push(HELD.delete(id, holding));
      if (!busy || returns) {
        busy = true;
        heads.push(made);
        changes.push(putDue(made));
      } else {
        changes.push(WAITING.put({ ...id, ...made.order, ordinal: made.ordinal }, made, null));
      }
    }
    changes.push(SEQUENCE.put(id, { busy, entered }, was ?? null));
  }
  return { placed: entering.map((line) => placed.get(line) as OrderedDue), heads, changes };
}

interface Passed {
  readonly changes: readonly Change[];
  readonly next?: Due;
}

/**
 * Returns what ends the turn of a sequence's head: the next one gets its due line.
 * @throws StorageError; ConflictError by the commit: then call it again
 */
export async function passOn(
  storage: Pick<Storage, "getItem" | "getMany" | "range">,
  { keyId, subscriptionId, order }: Pick<OrderedDue, "keyId" | "subscriptionId" | "order">,
): Promise<Passed> {
  const id = { keyId, subscriptionId, sequence: order.sequence };
  // The row first: who enters after it was read changes it, and who entered before is found waiting.
  const [was, count] = await storage.getMany([SEQUENCE.key(id), PASSED.key(id)]);
  const row = SEQUENCE.read(was) ?? NEW;
  const known = PASSED.read(count) ?? 0;
  const entered = row === DAMAGED ? Math.max(order.place, known === DAMAGED ? 0 : known) : row.entered;
  const left = known === DAMAGED ? Math.max(0, entered - (await countIn(storage, id)) - 1) : known;
  // One that waits may be taken out meanwhile, and counts as passed too.
  const passed = PASSED.put(id, left + 1, count ?? null);
  const [first] = await storage.range(WAITING.under(id), { limit: 1 });
  if (first === undefined) return { changes: [passed, SEQUENCE.put(id, { busy: false, entered }, was ?? null)] };
  const next = await readWaiting(storage, keyId, first);
  return {
    next,
    changes: [passed, { op: "delete", key: first.key, if: first.value }, putDue(next)],
  };
}

/**
 * Returns what takes deliveries that wait for their turn out of a sequence.
 * @param rows those by which they wait
 * @throws ConflictError by the commit: then read again
 */
export async function leaveSequence(
  storage: Pick<Storage, "getMany">,
  { keyId, subscriptionId, order }: Pick<OrderedDue, "keyId" | "subscriptionId" | "order">,
  rows: readonly Entry[],
): Promise<readonly Change[]> {
  const id = { keyId, subscriptionId, sequence: order.sequence };
  const [count] = await storage.getMany([PASSED.key(id)]);
  const left = PASSED.read(count) ?? 0;
  const gone = rows.map(({ key, value }): Change => ({ op: "delete", key, if: value }));
  // A damaged count is made again when the next one passes on.
  return left === DAMAGED ? gone : [...gone, PASSED.put(id, left + rows.length, count ?? null)];
}

type EndStorage = Pick<Storage, "getItem" | "getMany" | "range" | "commit"> & {
  readonly queue: Pick<Storage["queue"], "withdraw" | "add">;
};

/** A delivery that waits for its turn, as it is to end, and the row by which it waits. */
interface EndedWaiting {
  readonly over: Delivery;
  readonly row: Entry;
}

/**
 * Ends a delivery that has a line in the due index. If it goes in order, the next one gets its turn.
 * @param leased whether to take it from a node that has leased it: the result of an attempt that is under way is lost
 * @returns false, with nothing changed, when a node has leased it
 * @throws ConflictError, StorageError
 */
export async function endLine(
  storage: EndStorage,
  line: Due,
  over: Delivery,
  { also = [], leased = false }: { readonly also?: readonly Change[]; readonly leased?: boolean } = {},
): Promise<boolean> {
  const { order } = over;
  const passed = order === undefined ? undefined : await passOn(storage, { ...over, order });
  const changes = [...endedChanges(line, over), ...(passed?.changes ?? []), ...also];
  if (!(await storage.queue.withdraw(line, changes))) {
    if (!leased) return false;
    await storage.commit(changes);
  }
  if (passed?.next !== undefined) storage.queue.add([passed.next]);
  return true;
}

/** Ends deliveries that wait for their turn in one sequence. @throws ConflictError, StorageError */
export async function endWaiting(
  storage: Pick<Storage, "getMany" | "commit">,
  ends: readonly EndedWaiting[],
  also: readonly Change[] = [],
): Promise<void> {
  const of = ends[0]?.over as Delivery & Pick<OrderedDue, "order">;
  const rows = ends.map(({ row }) => row);
  const ended = ends.flatMap(({ over }) => endedChanges(undefined, over));
  await storage.commit([...ended, ...(await leaveSequence(storage, of, rows)), ...also]);
}

/**
 * Reads who waits in a row. One that cannot be read is rebuilt from the delivery's record. When that cannot be read
 * either, its turn comes all the same: a delivery that is claimed without a record that can be read ends as damaged.
 */
export async function readWaiting(storage: Pick<Storage, "getItem">, keyId: string, row: Entry): Promise<Due> {
  const due = lineOf(row);
  if (due !== undefined) return due;
  const { subscriptionId, ordinal, ...order } = WAITING.id(row.key);
  const delivery = unlessDamaged(await readOne(storage, DELIVERY, { subscriptionId, ordinal }));
  if (delivery?.status === "pending" && delivery.nextAttemptAt !== undefined)
    return { ...dueOf(delivery, delivery.nextAttemptAt), order };
  const dueAt = ordinalTime(ordinal);
  return { subscriptionId, keyId, ordinal, dueAt, generation: UNKNOWN, cycle: 0, attempts: 0, waitMs: 0, order };
}

/** The generation of a delivery of which nothing is known: no disabling of the subscription is newer. */
const UNKNOWN = 999_999_999_999_999;

/** Returns the line in a row of the due index, or of a delivery that waits for its turn; `undefined`: it has none. */
export function lineOf({ key, value }: Entry): Due | undefined {
  return unlessDamaged(WAITING.has(key) ? WAITING.read(value, key) : DUE.read(value, key));
}

/** True for a conflict about sequences alone: the delivery's own line is as it was. */
export const isSequenceConflict = (error: unknown): boolean =>
  error instanceof ConflictError &&
  error.keys.length > 0 &&
  error.keys.every((key) => ORDERED.some((kind) => kind.has(key)));

const ORDERED = [SEQUENCE, PASSED, WAITING, HELD];
