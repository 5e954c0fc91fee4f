/** Loads what proves a delivery: its record, which a first attempt does not have, or the list of its event. */
import type { Delivery, Due } from "../model/delivery.ts";
import { DamagedRecordError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { DELIVERY, DUE, SNAPSHOT } from "../model/schema.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Storage } from "../ports/storage.ts";
import { isDamage, readOrThrow } from "./damage.ts";
import type { Recipients } from "./recipients.ts";

/**
 * @returns `undefined` when only the acceptance has been written: no attempt and no replay. One that goes in order has a
 * record from then on
 * @throws DamagedRecordError when line or record is damaged, or they contradict each other (which a simultaneous replay
 * can also cause); StorageError
 */
export function loadRecord(line: Due, storage: Pick<Storage, "getItem">): MaybePromise<Delivery | undefined> {
  const { ordinal, attempts, cycle, dueAt, order } = line;
  if (line.damaged !== undefined) throw new DamagedRecordError("due", "unreadable", DUE.key(line));
  if (attempts === 0 && cycle === 0 && dueAt === ordinalTime(ordinal) && order === undefined) return undefined;
  return recordOf(line, storage);
}

async function recordOf(line: Due, storage: Pick<Storage, "getItem">): Promise<Delivery | undefined> {
  const { subscriptionId, ordinal, attempts, cycle, generation, order } = line;
  const delivery = await readOrThrow(storage, DELIVERY, { subscriptionId, ordinal });
  if (delivery === undefined) {
    if (attempts === 0 && cycle === 0) return undefined;
    throw new DamagedRecordError("delivery", "missing", DELIVERY.key({ subscriptionId, ordinal }));
  }
  const agrees =
    delivery.status === "pending" &&
    delivery.attempts.length === attempts &&
    delivery.cycle === cycle &&
    delivery.generation === generation &&
    delivery.order?.sequence === order?.sequence &&
    delivery.order?.place === order?.place;
  if (!agrees) throw new DamagedRecordError("due", "misplaced", DUE.key(line));
  return delivery;
}

/**
 * Returns whether a delivery to the subscription is one of the event's.
 * @throws DamagedRecordError when the list of a wide event's subscriptions is damaged, so that nobody can say; StorageError
 */
export function isNamed(recipients: Pick<Recipients, "has">, event: RelayEvent, id: string): MaybePromise<boolean> {
  const { keyId, wide } = event;
  if (wide === undefined) return event.subscriptionIds.includes(id);
  return recipients.has(event, id).catch((cause: unknown) => {
    if (!isDamage(cause)) throw cause;
    throw new DamagedRecordError("event", "unreadable", SNAPSHOT.key({ keyId, id: wide.snapshot }), { cause });
  });
}
