/** Finds where replayed deliveries stand in the order of their subscription, and lets them in. */
import type { Delivery, Due } from "../model/delivery.ts";
import { bodyData } from "../model/event.ts";
import { eventKey } from "../model/keys.ts";
import { sequenceOf } from "../model/order.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readEvent, readText, unlessDamagedLater } from "../records/damage.ts";
import { dueOf, putDue, replayChanges } from "../records/delivery-records.ts";
import { enterSequences, type OrderedDue } from "../records/sequences.ts";

/** A delivery before and after a replay. */
export interface Replayed {
  readonly delivery: Delivery;
  /** The text of its record; `null` without one. */
  readonly was: string | null;
  readonly next: Delivery;
  readonly dueAt: number;
}

interface ReplayCommit {
  readonly changes: readonly Change[];
  /** Lines that the commit adds to the due index. */
  readonly dues: readonly Due[];
}

/**
 * Returns the delivery with its place. One that was accepted when the subscription was disabled, or not ordered yet, has
 * none: it goes to the end.
 */
export async function withOrder(
  storage: Pick<Storage, "getItem">,
  sub: Pick<Subscription, "keyId" | "ordered" | "orderBy">,
  delivery: Delivery,
): Promise<Delivery> {
  if (sub.ordered !== true || delivery.order !== undefined) return delivery;
  if (sub.orderBy === undefined) return { ...delivery, order: { sequence: 0, place: 0 } };
  const { ordinal } = delivery;
  const text = await unlessDamagedLater(readText(storage, "event", eventKey(sub.keyId, ordinal)));
  const { event, damaged } = readEvent(sub.keyId, ordinal, text);
  // What is damaged is never sent.
  if (damaged) return delivery;
  return {
    ...delivery,
    order: { sequence: sequenceOf(sub, event.type, () => JSON.parse(bodyData(event)) as unknown), place: 0 },
  };
}

/** Returns the changes of these replays. Those that go in order enter their sequences, all others are due. */
export async function commitOf(
  storage: Pick<Storage, "getMany" | "range">,
  replayed: readonly Replayed[],
): Promise<ReplayCommit> {
  const entering = replayed.filter(({ next }) => next.order !== undefined).map(lineOf);
  const { placed, heads, changes: more } = entering.length > 0 ? await enterSequences(storage, entering) : NOBODY;
  const places = new Map(placed.map((line) => [nameOf(line), line]));
  const changes: Change[] = [...more];
  const dues: Due[] = [...heads];
  for (const one of replayed) {
    const { delivery, was, next, dueAt } = one;
    const line = places.get(nameOf(next));
    for (const change of replayChanges(delivery, was, line === undefined ? next : { ...next, order: line.order }))
      changes.push(change);
    if (line !== undefined) continue;
    const due = dueOf(next, dueAt);
    changes.push(putDue(due));
    dues.push(due);
  }
  return { changes, dues };
}

const nameOf = ({ subscriptionId, ordinal }: Pick<Due, "subscriptionId" | "ordinal">): string =>
  `${subscriptionId} ${ordinal}`;

const NOBODY = { placed: [], heads: [], changes: [] };

const lineOf = ({ next, dueAt }: Replayed): OrderedDue => {
  const due = dueOf(next, dueAt);
  return { ...due, order: due.order ?? { sequence: 0, place: 0 } };
};
