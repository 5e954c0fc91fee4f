/**
 * Reads a delivery for a replay, even when its record is damaged, with the rows by which it is pending: its line in the
 * due index, or its place in order. Writes it as replayed, in the order of its subscription.
 */
import { type Delivery, type Due, sequenceOf } from "../model/delivery.ts";
import { bodyData, type RelayEvent } from "../model/event.ts";
import { compileFilter, type Filter, type Matcher } from "../model/filter.ts";
import { ordinalTime } from "../model/ids.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import { DELIVERY, DUE, FAILED, WAITING } from "../model/schema.ts";
import { wants, type Subscription } from "../model/subscription.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { damagedDelivery, loadEvent, readOne, readTexts } from "../records/damage.ts";
import { dueOf, freshDelivery, putDue, replayChanges } from "../records/delivery-records.ts";
import { makeRowAgain } from "../records/missing-rows.ts";
import { endLine, endWaiting, enterSequences, type OrderedDue } from "../records/sequences.ts";

type Readable = Pick<Storage, "getItem" | "getMany">;

export type EventPlace = Pick<RelayEvent, "id" | "keyId" | "ordinal">;

export interface CurrentDelivery {
  readonly delivery: Delivery;
  /** The text of its record; `null` without one. */
  readonly text: string | null;
  /** Its line in the due index, when it has one. */
  readonly line?: Due;
  /** Its row while it waits for its turn. */
  readonly waits?: Entry;
}

/**
 * Reads it, and makes its line again when the storage has lost that.
 * @returns `undefined` when a fan-out has yet to write it, or when record and line cannot be read
 */
export async function readCurrent(
  storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">,
  event: EventPlace,
  subscriptionId: string,
): Promise<CurrentDelivery | undefined> {
  const { id: eventId, keyId, ordinal } = event;
  const [text] = await readTexts(storage, [DELIVERY.key({ subscriptionId, ordinal })]);
  const known = text === undefined ? undefined : await replayedRecord(storage, text, event, subscriptionId);
  if (text !== undefined && known === undefined) return undefined;
  if (known !== undefined && known.status !== "pending") return { delivery: known, text: text as string };
  const at = known?.nextAttemptAt ?? ordinalTime(ordinal);
  const keys = known === undefined ? [DUE.key({ subscriptionId, dueAt: at, ordinal })] : lineKeys(known, at);
  const [value, waiting] = await readTexts(storage, keys);
  const line = value === undefined ? undefined : DUE.orThrow(value, keys[0]);
  const waits = waiting === undefined ? undefined : { key: keys[1] as string, value: waiting };
  if (line === undefined && waits === undefined && (await makeRowAgain(storage, event, subscriptionId)))
    return await readCurrent(storage, event, subscriptionId);
  if (known !== undefined) return { delivery: known, text: text as string, line, waits };
  return line && { delivery: freshDelivery({ ...line, keyId }, eventId), text: null, line };
}

/**
 * Ends it.
 * @param options as for `endLine`
 * @returns false, with nothing changed, when a node has leased it, or when it has no row by which it is pending
 * @throws ConflictError, StorageError
 */
export async function endCurrent(
  storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">,
  { line, waits }: CurrentDelivery,
  over: Delivery,
  options: { readonly also?: readonly Change[]; readonly leased?: boolean },
): Promise<boolean> {
  if (line !== undefined) return await endLine(storage, line, over, options);
  if (over.order === undefined || waits === undefined) return false;
  await endWaiting(storage, [{ over, row: waits }], options.also);
  return true;
}

/** Returns the keys of a pending delivery's line: in the due index, and where it waits for its turn. */
const lineKeys = ({ subscriptionId, ordinal, order }: Delivery, dueAt: number): readonly string[] => [
  DUE.key({ subscriptionId, dueAt, ordinal }),
  ...(order === undefined ? [] : [WAITING.key({ subscriptionId, ...order, ordinal })]),
];

/**
 * Returns the delivery of a record's text. For a damaged record it is a failed delivery, of the cycle in the index of
 * failed deliveries.
 * @returns `undefined` when the record is damaged and the index does not have it: it is pending, or was delivered
 */
async function replayedRecord(
  storage: Readable,
  text: string,
  event: EventPlace,
  subscriptionId: string,
): Promise<Delivery | undefined> {
  const id = { subscriptionId, ordinal: event.ordinal };
  const known = DELIVERY.read(text, DELIVERY.key(id));
  if (known !== DAMAGED) return known;
  const failed = unlessDamaged(await readOne(storage, FAILED, id));
  return failed && damagedDelivery(event, subscriptionId, failed.cycle);
}

/**
 * Returns the id of the event of a failed delivery.
 * @returns `undefined` when there is nothing to send: a delivery that damage ended is replayed only when its event is
 * intact. One that was never tried may stem from a time when nobody could read which events the subscription wanted
 */
export async function replayedEventId(
  storage: Readable,
  sub: Subscription,
  ordinal: string,
): Promise<string | undefined> {
  const known = await readOne(storage, DELIVERY, { subscriptionId: sub.id, ordinal });
  if (known === undefined) return undefined;
  if (known !== DAMAGED && known.reason !== "record_damaged") return known.eventId;
  const found = await loadEvent(storage, sub.keyId, ordinal);
  if (found.damaged) return undefined;
  const untried = known !== DAMAGED && known.cycle === 0 && known.attempts.length === 0;
  return untried && !wantsEvent(sub, found.event) ? undefined : found.event.id;
}

function wantsEvent(sub: Subscription, event: RelayEvent): boolean {
  if (!wants(sub, event.type)) return false;
  return sub.filter === undefined || matcherOf(sub.filter).matches({ type: event.type, data: dataOf(event) });
}

const dataOf = (event: RelayEvent): unknown => JSON.parse(bodyData(event)) as unknown;

/** A filter that this version cannot read excludes nothing. */
function matcherOf(filter: Filter): Pick<Matcher, "matches"> {
  try {
    return compileFilter(filter);
  } catch {
    return { matches: () => true };
  }
}

export interface Replayed {
  readonly delivery: Delivery;
  /** The text of its record; `null` without one. */
  readonly was: string | null;
  readonly next: Delivery;
  readonly dueAt: number;
}

/** Returns the delivery with its place; one accepted while disabled, or unordered, goes to the end. */
export async function withOrder(
  storage: Pick<Storage, "getItem">,
  sub: Pick<Subscription, "keyId" | "ordered" | "orderBy">,
  delivery: Delivery,
): Promise<Delivery> {
  if (sub.ordered !== true || delivery.order !== undefined) return delivery;
  if (sub.orderBy === undefined) return { ...delivery, order: { sequence: 0, place: 0 } };
  const { event, damaged } = await loadEvent(storage, sub.keyId, delivery.ordinal);
  // A damaged event is never sent.
  if (damaged) return delivery;
  return {
    ...delivery,
    order: { sequence: sequenceOf(sub, event.type, () => dataOf(event)), place: 0 },
  };
}

/**
 * Commits these replays. Those that go in order enter their sequences, all others are due.
 * @param also changes for the same commit
 * @throws ConflictError, StorageError
 */
export async function commitReplays(
  storage: Pick<Storage, "getMany" | "range" | "commit" | "queue">,
  replayed: readonly Replayed[],
  also: readonly Change[],
): Promise<void> {
  const entering = replayed.filter(({ next }) => next.order !== undefined).map(lineOf);
  const { placed, heads, changes: more } = await enterSequences(storage, entering);
  const places = new Map(placed.map((line) => [nameOf(line), line]));
  const changes: Change[] = [...also, ...more];
  const dues: Due[] = [...heads];
  for (const { delivery, was, next, dueAt } of replayed) {
    const line = places.get(nameOf(next));
    for (const change of replayChanges(delivery, was, line === undefined ? next : { ...next, order: line.order }))
      changes.push(change);
    if (line !== undefined) continue;
    const due = dueOf(next, dueAt);
    changes.push(putDue(due));
    dues.push(due);
  }
  await storage.commit(changes);
  storage.queue.add(dues);
}

const nameOf = ({ subscriptionId, ordinal }: Pick<Due, "subscriptionId" | "ordinal">): string =>
  `${subscriptionId} ${ordinal}`;

const lineOf = ({ next, dueAt }: Replayed): OrderedDue => {
  const due = dueOf(next, dueAt);
  return { ...due, order: due.order ?? { sequence: 0, place: 0 } };
};
