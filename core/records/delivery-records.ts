/** Turns what happened to a delivery into the changes of one commit, as pure functions. */
import type { Attempt } from "../model/attempt.ts";
import { verified, withChecksum } from "../lib/checksum.ts";
import { type Delivery, type Due, dueValue, type EndReason } from "../model/delivery.ts";
import { DamagedRecordError } from "../model/errors.ts";
import { ATTEMPTS, DELIVERY, DUE, FAILED, REPLAYED } from "../model/schema.ts";
import type { Change } from "../ports/storage.ts";

/**
 * Decodes the record under `key` and checks it.
 * @throws DamagedRecordError when it is not as `encodeDelivery` wrote it, or belongs to another delivery
 */
export function decodeDelivery(text: string, key?: string): Delivery {
  const delivery = decoded("delivery", text, '{"keyId":"', key) as Delivery;
  if (key !== undefined && key !== DELIVERY.key(delivery)) throw new DamagedRecordError("delivery", "misplaced", key);
  if (!Array.isArray(delivery.attempts)) throw new DamagedRecordError("delivery", "unreadable", key ?? "");
  return delivery;
}

function decoded(kind: "delivery" | "attempts", text: string, first: string, key = ""): unknown {
  const proven = verified(text, first);
  if (proven === undefined) {
    const damage = text.startsWith('{"') ? "checksum" : "unreadable";
    throw new DamagedRecordError(kind, damage, key);
  }
  try {
    return JSON.parse(proven.text);
  } catch (cause) {
    throw new DamagedRecordError(kind, "unreadable", key, { cause });
  }
}

/** Encodes JSON, its checksum first. */
export function encodeDelivery(delivery: Delivery): string {
  const { keyId, eventId, ordinal, subscriptionId, status, reason, cycle, generation, attempts } = delivery;
  const { order, nextAttemptAt, updatedAt } = delivery;
  // One literal: V8 copies properties one by one where two are spread into a third.
  const json = JSON.stringify({
    keyId,
    eventId,
    ordinal,
    subscriptionId,
    status,
    reason,
    cycle,
    generation,
    order,
    attempts,
    nextAttemptAt,
    updatedAt,
  });
  return withChecksum(json.slice(1));
}

/** Encodes the attempts of an ended cycle, with the delivery that they belong to. */
export const encodeAttempts = ({ subscriptionId, ordinal, cycle, attempts }: Delivery): string =>
  withChecksum(JSON.stringify({ subscriptionId, ordinal, cycle, attempts }).slice(1));

/**
 * Decodes the attempts of an ended cycle under `key`. Those of the first edition are a plain list.
 * @throws DamagedRecordError when they are not as `encodeAttempts` wrote them, or belong to another delivery
 */
export function decodeAttempts(text: string, key: string): readonly Attempt[] {
  const read = decoded("attempts", text, "[", key) as Delivery | readonly Attempt[];
  if (Array.isArray(read)) return read as readonly Attempt[];
  const { subscriptionId, ordinal, cycle, attempts } = read as Delivery;
  if (key !== ATTEMPTS.key({ subscriptionId, ordinal, cycle }))
    throw new DamagedRecordError("attempts", "misplaced", key);
  return attempts;
}

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

export const putDelivery = (delivery: Delivery): Change => DELIVERY.put(delivery, encodeDelivery(delivery));
export const putDue = (due: Due): Change => DUE.put(due, dueValue(due));
/** Deletes the line only if it is as it was claimed: a replay or another holder that changed it owns the delivery now. */
export const dropDue = (due: Due): Change => DUE.delete(due, dueValue(due));

/** Ends the delivery as failed or cancelled. A failed one enters the replay store's index. */
export function endedChanges(line: Due | undefined, delivery: Delivery): readonly Change[] {
  const changes: Change[] = [putDelivery(delivery)];
  if (line !== undefined) changes.push(dropDue(line));
  if (delivery.status === "failed") changes.push(putFailed(delivery, delivery.reason as EndReason));
  return changes;
}

const putFailed = (delivery: Delivery, reason: EndReason): Change =>
  FAILED.put(
    delivery,
    failedValue({ keyId: delivery.keyId, failedAt: delivery.updatedAt, reason, cycle: delivery.cycle }),
  );

/** A line of the replay store's index. */
export interface Failed {
  readonly keyId: string;
  readonly failedAt: number;
  readonly reason: EndReason;
  readonly cycle: number;
}
export const failedValue = (failed: Failed): string =>
  `${failed.keyId} ${failed.failedAt} ${failed.reason} ${failed.cycle}`;
export function parseFailed(value: string): Failed {
  const [keyId = "", failedAt, reason, cycle] = value.split(" ");
  return { keyId, failedAt: Number(failedAt), reason: reason as EndReason, cycle: Number(cycle) };
}

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
  const changes: Change[] = [DELIVERY.put(next, encodeDelivery(next), was), FAILED.delete(next)];
  changes.push(REPLAYED.put(next, ""));
  if (delivery.attempts.length > 0) {
    changes.push(ATTEMPTS.put(delivery, encodeAttempts(delivery)));
  }
  return changes;
}
