/** Turns what happened to a delivery into the changes of one commit, as pure functions. */
import { type Delivery, type Due, dueCodec, type EndReason } from "../model/delivery.ts";
import { ATTEMPTS, DELIVERY, DUE, FAILED, REPLAYED } from "../model/schema.ts";
import type { Change } from "../ports/storage.ts";

/** Returns the delivery as it is before its first attempt, when no record of it exists. */
export const freshDelivery = (due: Due, eventId: string): Delivery => ({
  keyId: due.keyId,
  eventId,
  ordinal: due.ordinal,
  subscriptionId: due.subscriptionId,
  status: "pending",
  cycle: due.cycle,
  generation: due.generation,
  order: due.order,
  attempts: [],
  nextAttemptAt: due.dueAt,
  updatedAt: due.dueAt,
});

/** Returns a pending delivery's line in the due index, as written by its last update. */
export const dueOf = (delivery: Delivery, dueAt: number): Due => ({
  subscriptionId: delivery.subscriptionId,
  keyId: delivery.keyId,
  ordinal: delivery.ordinal,
  dueAt,
  generation: delivery.generation,
  cycle: delivery.cycle,
  attempts: delivery.attempts.length,
  waitMs: Math.max(0, dueAt - delivery.updatedAt),
  order: delivery.order,
});

export const putDelivery = (delivery: Delivery): Change => DELIVERY.put(delivery, delivery);
/** Like `DUE.put`. Each delivery has one, and V8 allocates half as much where the codec is known. */
export const putDue = (due: Due): Change => ({ op: "put", key: DUE.key(due), value: dueCodec.write(due) });
/** Deletes the line only if it is as it was claimed: a replay or another holder that changed it owns the delivery now. */
export const dropDue = (due: Due): Change => DUE.delete(due, dueCodec.write(due));

/** Ends the delivery as failed or cancelled. A failed one enters the replay store's index. */
export function endedChanges(line: Due | undefined, delivery: Delivery): readonly Change[] {
  const changes: Change[] = [putDelivery(delivery)];
  if (line !== undefined) changes.push(dropDue(line));
  if (delivery.status === "failed") changes.push(putFailed(delivery));
  return changes;
}

/** Enters a delivery that has failed into the replay store's index. */
export const putFailed = (delivery: Delivery): Change =>
  FAILED.put(delivery, { ...delivery, failedAt: delivery.updatedAt, reason: delivery.reason as EndReason });

/** Moves the line to a later time; `delivery` has the same time in `nextAttemptAt`. */
export const movedChanges = (from: Due, to: Due, delivery: Delivery): readonly Change[] => [
  putDelivery(delivery),
  dropDue(from),
  putDue(to),
];

/**
 * Begins a new cycle: the attempts of the last one move to a record of their own. Its line is written beside it.
 * @param was the record's current text, or `null` without one; the commit is refused if it changed meanwhile
 */
export function replayChanges(delivery: Delivery, was: string | null, next: Delivery): readonly Change[] {
  const changes: Change[] = [DELIVERY.put(next, next, was), FAILED.delete(next)];
  changes.push(REPLAYED.put(next, ""));
  if (delivery.attempts.length > 0) changes.push(ATTEMPTS.put(delivery, delivery));
  return changes;
}
