/** Finds where replayed deliveries stand in the order of their subscription, and lets them in. */
import { type Delivery, type Due, sequenceOf } from "../model/delivery.ts";
import { bodyData } from "../model/event.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { loadEvent } from "../records/damage.ts";
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
  const { event, damaged } = await loadEvent(storage, sub.keyId, delivery.ordinal);
  // A damaged event is never sent.
  if (damaged) return delivery;
  return {
    ...delivery,
    order: { sequence: sequenceOf(sub, event.type, () => JSON.parse(bodyData(event)) as unknown), place: 0 },
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
  const { placed, heads, changes: more } = entering.length > 0 ? await enterSequences(storage, entering) : NOBODY;
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

const NOBODY = { placed: [], heads: [], changes: [] };

const lineOf = ({ next, dueAt }: Replayed): OrderedDue => {
  const due = dueOf(next, dueAt);
  return { ...due, order: due.order ?? { sequence: 0, place: 0 } };
};
