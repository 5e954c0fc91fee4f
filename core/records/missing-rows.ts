/**
 * Makes again what a pending delivery waits by, when a storage has lost it: its due line, its row in its sequence, or the
 * row of who holds that up. Each is one commit, on the condition that it is still missing, so two at once make one.
 */
import type { Delivery, Due } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import {
  DELIVERY,
  DUE,
  EVENT,
  FAILED,
  fanoutQueue,
  HELD,
  PASSED,
  SEQUENCE,
  SUBSCRIPTION,
  WAITING,
} from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { getText, readEvent, readTexts } from "./damage.ts";
import { dueOf, putDue } from "./delivery-records.ts";
import { everyEntry } from "./every-entry.ts";
import { holdsUp, holdUp } from "./held.ts";
import { countIn, findStuck, rebuildRow, type SequenceId } from "./sequence-rows.ts";
import { readWaiting } from "./sequences.ts";
import { readSubscription } from "./subscription-record.ts";
import { transact, tryCommit } from "./transaction.ts";

type Writable = Pick<Storage, "getItem" | "getMany" | "range" | "commit"> & {
  readonly queue: Pick<Storage["queue"], "add">;
};

const absent = (key: string): Change => ({ op: "check", key, if: null });

/**
 * Makes the row again by which a pending delivery of an event waits; the next sweep finds it. What nobody has tried yet
 * has no other record: it is sent for the generation that its subscription has now.
 * @returns false when none was missing: it has ended, or a fan-out has yet to write it
 * @throws StorageError; Problem CONFLICT
 */
export async function makeRowAgain(
  storage: Writable,
  { keyId, ordinal }: Pick<RelayEvent, "keyId" | "ordinal">,
  subscriptionId: string,
): Promise<boolean> {
  const own = DELIVERY.key({ subscriptionId, ordinal });
  const [text] = await readTexts(storage, [own]);
  if (text === undefined) return await makeFirstLine(storage, { keyId, ordinal }, subscriptionId);
  const delivery = unlessDamaged(DELIVERY.read(text, own));
  if (delivery === undefined || !(await putBack(storage, delivery, text))) return false;
  if (delivery.order !== undefined) await giveTurn(storage, { keyId, subscriptionId, ...delivery.order });
  return true;
}

/** @param text that of its record @returns false when it waits for nothing, or has its row */
async function putBack(storage: Writable, delivery: Delivery, text: string): Promise<boolean> {
  const { order, nextAttemptAt } = delivery;
  if (delivery.status !== "pending" || nextAttemptAt === undefined) return false;
  const due = dueOf(delivery, nextAttemptAt);
  const keys = [DUE.key(due), ...(order === undefined ? [] : [WAITING.key({ ...delivery, ...order })])];
  if ((await readTexts(storage, keys)).some((row) => row !== undefined)) return false;
  const row = order === undefined ? putDue(due) : WAITING.put({ ...delivery, ...order }, due);
  return await tryCommit(storage, [{ op: "check", key: DELIVERY.key(delivery), if: text }, ...keys.map(absent), row]);
}

async function makeFirstLine(
  storage: Writable,
  { keyId, ordinal }: Pick<RelayEvent, "keyId" | "ordinal">,
  subscriptionId: string,
): Promise<boolean> {
  const dueAt = ordinalTime(ordinal);
  const event = EVENT.key({ keyId, ordinal });
  const [from, line] = [SUBSCRIPTION.key({ keyId, id: subscriptionId }), DUE.key({ subscriptionId, dueAt, ordinal })];
  // A wide event that still has the line of its fan-out has not written all of its deliveries.
  const others = [
    FAILED.key({ subscriptionId, ordinal }),
    DUE.key({ subscriptionId: fanoutQueue(keyId), dueAt, ordinal }),
  ];
  const [text, sub, ...rows] = await readTexts(storage, [event, from, line, ...others]);
  const known = readEvent(keyId, ordinal, text);
  if (text === undefined || known.damaged || rows.some((row) => row !== undefined)) return false;
  const generation = sub === undefined ? 0 : readSubscription(sub, from).generation;
  const due: Due = { subscriptionId, keyId, ordinal, dueAt, generation, cycle: 0, attempts: 0 };
  const still: Change = { op: "check", key: event, if: text };
  return await tryCommit(storage, [still, ...[DELIVERY.key(due), line].map(absent), putDue(due)]);
}

/**
 * Lets a sequence go on in which it is nobody's turn: by the delivery that has lost its row, behind the failed one that
 * holds it up, or with the next that waits.
 * @returns false when it was somebody's turn
 * @throws StorageError; Problem CONFLICT
 */
export async function giveTurn(storage: Writable, id: SequenceId): Promise<boolean> {
  const { keyId, subscriptionId, sequence } = id;
  const isStuck = async (): Promise<boolean> =>
    (await findStuck(storage, keyId, subscriptionId, { also: sequence })).includes(sequence);
  if (!(await isStuck())) return false;
  const held = await whoHeldUp(storage, id);
  const next = await transact(storage, async (tx) => {
    if (!(await isStuck())) return undefined;
    const row = await tx.get(SEQUENCE, id);
    await tx.get(PASSED, id);
    const { entered } = row === undefined || row === DAMAGED ? await rebuildRow(storage, id) : row;
    const [first] = await storage.range(WAITING.under(id), { limit: 1 });
    const inside = (await countIn(storage, id)) + (held === undefined ? 0 : 1);
    tx.put(SEQUENCE, id, { busy: inside > 0, entered });
    tx.put(PASSED, id, Math.max(0, entered - inside));
    tx.add(absent(HELD.key(id)));
    if (held !== undefined) tx.add(held);
    if (held !== undefined || first === undefined) return true;
    const due = await readWaiting(storage, keyId, first);
    tx.add({ op: "delete", key: first.key, if: first.value }, putDue(due));
    return due;
  });
  if (typeof next === "object") storage.queue.add([next]);
  return next !== undefined;
}

/**
 * Reads all deliveries of a sequence: puts those back that have lost their rows, and finds whether the last that has
 * ended holds up the others.
 */
async function whoHeldUp(
  storage: Writable,
  { keyId, subscriptionId, sequence }: SequenceId,
): Promise<Change | undefined> {
  let lost = false;
  let last: Delivery | undefined;
  for await (const { key, value } of everyEntry(storage, DELIVERY.under({ subscriptionId }))) {
    const delivery = unlessDamaged(DELIVERY.read(value, key));
    if (delivery?.order?.sequence !== sequence) continue;
    if (delivery.status === "pending") lost = (await putBack(storage, delivery, value)) || lost;
    else if (delivery.order.place > (last?.order?.place ?? 0)) last = delivery;
  }
  const own = SUBSCRIPTION.key({ keyId, id: subscriptionId });
  const text = await getText(storage, own);
  const holds = text !== undefined && holdsUp(readSubscription(text, own));
  return holds && !lost && last?.order && last.status === "failed" ? holdUp(last, last.order) : undefined;
}

/** Does so for every sequence, one after another. @returns how many went on */
export async function giveTurns(storage: Writable, signal: AbortSignal): Promise<number> {
  let [given, before] = [0, ""];
  for await (const { key, value } of everyEntry(storage, SEQUENCE.start)) {
    if (signal.aborted) break;
    const { keyId, subscriptionId } = SEQUENCE.id(key);
    const row = SEQUENCE.read(value);
    if (subscriptionId === before || (row !== DAMAGED && row?.busy !== true)) continue;
    before = subscriptionId;
    for (const sequence of await findStuck(storage, keyId, subscriptionId))
      if (await giveTurn(storage, { keyId, subscriptionId, sequence })) given++;
  }
  return given;
}
