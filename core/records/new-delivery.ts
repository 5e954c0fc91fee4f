/** Writes the rows of new deliveries: a due line each, or a failed record where the subscription is disabled. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { RelayEvent, Wide } from "../model/event.ts";
import { DUE, FANOUT_LINES, fanoutQueue, isFanoutQueue } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { putDelivery, putDue, putFailed } from "./delivery-records.ts";
import { isOutline } from "./subscription-record.ts";

type Accepted = Pick<RelayEvent, "id" | "keyId" | "ordinal" | "acceptedAt">;
type To = Pick<Subscription, "id" | "generation" | "disabledReason">;

export function addDue(changes: Change[], dues: Due[], event: Accepted, { id, generation }: To): void {
  const { keyId, ordinal, acceptedAt } = event;
  const due: Due = { subscriptionId: id, keyId, ordinal, dueAt: acceptedAt, generation, cycle: 0, attempts: 0 };
  dues.push(due);
  changes.push(putDue(due));
}

/** Adds a delivery that failed before it began, because its subscription is disabled or damaged. */
export function addFailed(changes: Change[], event: Accepted, to: To): void {
  const delivery = disabledDelivery(event, to);
  changes.push(putDelivery(delivery), putFailed(delivery));
}

/** Returns the delivery of an event that was accepted while its subscription was disabled or damaged. */
export const disabledDelivery = (event: Accepted, to: To): Delivery => ({
  keyId: event.keyId,
  eventId: event.id,
  ordinal: event.ordinal,
  subscriptionId: to.id,
  status: "failed",
  reason: isOutline(to) ? "record_damaged" : "subscription_disabled",
  cycle: 0,
  generation: to.generation,
  attempts: [],
  updatedAt: event.acceptedAt,
});

/**
 * Returns the due line that stands for the unwritten deliveries of a wide event.
 * @param written how many are written
 */
export const fanoutLine = (
  { keyId, ordinal, acceptedAt }: Pick<RelayEvent, "keyId" | "ordinal" | "acceptedAt">,
  { count }: Wide,
  written: number,
): Due => ({
  subscriptionId: fanoutQueue(keyId),
  keyId,
  ordinal,
  dueAt: acceptedAt,
  generation: count - written,
  cycle: 0,
  attempts: written,
  // It never waits: a clock that steps back in the middle of a fan-out does not delay the rest of it.
  ...(written > 0 && { waitMs: 0 }),
});

/** Most fan-outs read to count what is left to write. */
const MOST_FANOUTS = 1_000;

/** Counts unwritten deliveries of wide events, of one key or of all; reads the first `MOST_FANOUTS` events. */
export async function unwritten(storage: Pick<Storage, "range">, keyId?: string): Promise<number> {
  const prefix = keyId === undefined ? FANOUT_LINES : DUE.under({ subscriptionId: fanoutQueue(keyId) });
  const lines = await storage.range(prefix, { limit: MOST_FANOUTS });
  return lines.reduce((sum, { key, value }) => sum + DUE.orThrow(value, key).generation, 0);
}

/** Returns how many pending deliveries a line stands for. */
export const deliveriesOfLine = (due: Due): number => (isFanoutQueue(due.subscriptionId) ? due.generation : 1);
