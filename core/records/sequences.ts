/**
 * Keeps deliveries of ordered subscriptions in order. Of each sequence only one delivery, its head, is in the due index
 * or held; the others wait in the order of their places. So nothing that claims, retries, pauses or recovers has to know
 * of order: a delivery that waits cannot be claimed, on any node.
 *
 * A place is given by the commit that accepts the event, on condition that no other commit gave one meanwhile. So the
 * order of places is the order of commits, whatever the clocks of the nodes say. The commit that ends a head writes the
 * due line of the next. It conflicts with entries only when it found nobody waiting.
 */
import type { Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import {
  deliveryKey,
  dueKey,
  dueValue,
  heldKey,
  parseWaiting,
  passedKey,
  passedKeyOf,
  sequenceKey,
  SEQUENCES,
  sequencesOf,
  waitingKey,
  waitingOf,
  waitingValue,
} from "../model/keys.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { unlessDamaged } from "./damage.ts";
import { decodeDelivery, dueOf } from "./delivery-records.ts";

const PAGE = 500;

/** The due line of a delivery that goes in order. */
export type OrderedDue = Due & { readonly order: NonNullable<Due["order"]> };

export interface Entered {
  /** The lines with their places, in the order in which they were given. */
  readonly placed: readonly OrderedDue[];
  /** Those whose turn it is. */
  readonly heads: readonly OrderedDue[];
  readonly changes: readonly Change[];
}

interface Row {
  busy: boolean;
  entered: number;
}

const rowText = ({ busy, entered }: Row): string => `${busy ? "busy" : "idle"} ${entered}`;

/** @throws SyntaxError when the text is not the row of a sequence */
function parseRow(text: string | undefined): Row {
  const read = text === undefined ? ["", "idle", "0"] : /^(busy|idle) (\d{1,15})$/.exec(text);
  if (read === null) throw new SyntaxError("the text is not the row of a sequence");
  return { busy: read[1] === "busy", entered: Number(read[2]) };
}

const rowKeyOf = ({ keyId, subscriptionId, order }: OrderedDue): string =>
  sequenceKey(keyId, subscriptionId, order.sequence);

/**
 * Returns what lets deliveries enter their sequences: at the end, or, with a place of their own, at that place. One that
 * holds up its sequence goes at once.
 * @throws StorageError; ConflictError by the commit: then call it again
 */
export async function enterSequences(
  storage: Pick<Storage, "getMany">,
  entering: readonly OrderedDue[],
): Promise<Entered> {
  const groups = Map.groupBy(entering, rowKeyOf);
  const keys = [...groups].flatMap(([key, [first]]) => {
    const { subscriptionId, order } = first as OrderedDue;
    return [key, heldKey(subscriptionId, order.sequence)];
  });
  const texts = await storage.getMany(keys);
  const placed = new Map<OrderedDue, OrderedDue>();
  const heads: OrderedDue[] = [];
  const changes: Change[] = [];
  for (const [i, [key, lines]] of [...groups].entries()) {
    const [was, holding] = [texts[2 * i], texts[2 * i + 1]];
    const row = parseRow(was);
    const heldOrdinal = holding?.split(" ")[1];
    // Those that come back go first, in their old order.
    const ranked = lines.toSorted((a, b) => (a.order.place || Infinity) - (b.order.place || Infinity) || 0);
    for (const line of ranked) {
      const returns = heldOrdinal === line.ordinal;
      if (!returns) row.entered++;
      const made = { ...line, order: { ...line.order, place: line.order.place || row.entered } };
      placed.set(line, made);
      if (returns) changes.push({ op: "delete", key: keys[2 * i + 1] as string, if: holding as string });
      if (!row.busy || returns) {
        row.busy = true;
        heads.push(made);
        changes.push({ op: "put", key: dueKey(made), value: dueValue(made) });
      } else {
        const own = waitingKey(made.subscriptionId, made.order, made.ordinal);
        changes.push({ op: "put", key: own, value: waitingValue(made), if: null });
      }
    }
    changes.push({ op: "put", key, value: rowText(row), if: was ?? null });
  }
  return { placed: entering.map((line) => placed.get(line) as OrderedDue), heads, changes };
}

export interface Passed {
  readonly changes: readonly Change[];
  /** The line of the next head. */
  readonly next?: Due;
}

/**
 * Returns what ends the turn of a sequence's head: the next one gets its due line.
 * @throws StorageError; ConflictError by the commit: then call it again
 */
export async function passOn(
  storage: Pick<Storage, "getMany" | "range">,
  { keyId, subscriptionId, order }: Pick<OrderedDue, "keyId" | "subscriptionId" | "order">,
): Promise<Passed> {
  const rowKey = sequenceKey(keyId, subscriptionId, order.sequence);
  const countKey = passedKey(keyId, subscriptionId, order.sequence);
  // The row first: who enters after it was read changes it, and who entered before is found waiting.
  const [was, count] = await storage.getMany([rowKey, countKey]);
  const passed: Change = { op: "put", key: countKey, value: String(Number(count ?? 0) + 1) };
  const unreadable: Change[] = [];
  const prefix = waitingOf(subscriptionId, order.sequence);
  let [first] = await storage.range(prefix, { limit: 1 });
  let next: Due | undefined;
  for (; first !== undefined; [first] = await storage.range(prefix, { after: first.key, limit: 1 })) {
    next = await readWaiting(storage, first);
    if (next !== undefined) break;
    unreadable.push({ op: "delete", key: first.key, if: first.value });
  }
  if (first === undefined || next === undefined) {
    const idle = rowText({ busy: false, entered: unlessSyntax(() => parseRow(was))?.entered ?? order.place });
    return { changes: [passed, ...unreadable, { op: "put", key: rowKey, value: idle, if: was ?? null }] };
  }
  return {
    next,
    changes: [
      passed,
      ...unreadable,
      { op: "delete", key: first.key, if: first.value },
      { op: "put", key: dueKey(next), value: dueValue(next) },
    ],
  };
}

/** Reads who waits in a row. One that cannot be read is rebuilt from its record; with neither, nobody waits there. */
async function readWaiting(storage: Pick<Storage, "getMany">, { key, value }: Entry): Promise<Due | undefined> {
  const due = unlessSyntax(() => parseWaiting(key, value));
  if (due !== undefined) return due;
  const [, subscriptionId = "", , , ordinal = ""] = key.split(":");
  const own = deliveryKey(subscriptionId, ordinal);
  const [text] = await storage.getMany([own]);
  const delivery = text === undefined ? undefined : unlessDamaged(() => decodeDelivery(text, own));
  const dueAt = delivery?.status === "pending" ? delivery.nextAttemptAt : undefined;
  return delivery === undefined || dueAt === undefined ? undefined : dueOf(delivery, dueAt);
}

function unlessSyntax<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** True for a conflict about sequences alone: the delivery's own line is as it was. */
export const isSequenceConflict = (error: unknown): boolean =>
  error instanceof ConflictError && error.keys.length > 0 && error.keys.every((key) => ORDER_KEY.test(key));

const ORDER_KEY = /^(?:sequence|passed|waiting|held):/;

/** Counts pending deliveries that are not in the due index because they wait for their turn: of one key, or of all. */
export async function countWaiting(
  storage: Pick<Storage, "getMany" | "range">,
  keyId?: string,
  subscriptionId?: string,
): Promise<number> {
  const prefix = keyId === undefined ? SEQUENCES : sequencesOf(keyId, subscriptionId);
  let sum = 0;
  for (let after: string | undefined; ;) {
    const page: readonly Entry[] = await storage.range(prefix, { after, limit: PAGE });
    const passed = await storage.getMany(page.map(({ key }) => passedKeyOf(key)));
    for (const [i, { value }] of page.entries()) {
      const { busy, entered } = parseRow(value);
      // One is the head.
      if (busy) sum += Math.max(0, entered - Number(passed[i] ?? 0) - 1);
    }
    if (page.length < PAGE) return sum;
    after = page.at(-1)?.key;
  }
}
