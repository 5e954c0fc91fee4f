/** Checks the rows of ordered subscriptions: who waits, and that each sequence that is busy has somebody whose turn it is. */
import { parseDue, parseWaiting } from "../model/due.ts";
import { DELIVERY, DUE, HELD, SEQUENCE, WAITING } from "../model/schema.ts";
import type { Entry } from "../ports/storage.ts";
import { unlessDamaged } from "../records/damage.ts";
import { decodeDelivery } from "../records/delivery-records.ts";
import { everyEntry } from "../records/every-entry.ts";
import { parseHeld, parsePassed, parseRow } from "../records/sequence-rows.ts";
import type { Readable } from "./verify-wide.ts";

export async function checkSequence({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { subscriptionId, sequence } = SEQUENCE.id(key);
  const row = parseRow(value);
  if (row === undefined) return "cannot be read";
  const [first] = await storage.range(WAITING.under({ subscriptionId, sequence: sequence }), { limit: 1 });
  if (!row.busy) return first === undefined ? undefined : "is idle, but deliveries wait in it";
  const held = await storage.getItem(HELD.key({ subscriptionId, sequence: sequence }));
  if (held !== undefined) return undefined;
  for await (const line of everyEntry(storage, DUE.under({ subscriptionId }))) {
    const due = parseDue(line.key, line.value);
    if (due.damaged !== undefined || due.order?.sequence === sequence) return undefined;
  }
  return "is busy, but it is nobody's turn";
}

export const checkPassed = ({ value }: Entry): string | undefined =>
  parsePassed(value) === undefined ? "cannot be read" : undefined;

export async function checkWaiting({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const due = parseWaiting(key, value);
  const { subscriptionId, ordinal, order } = due;
  if (order === undefined || WAITING.key({ subscriptionId, ...order, ordinal }) !== key)
    return "stands at another place";
  const text = await storage.getItem(DELIVERY.key({ subscriptionId, ordinal }));
  if (text === undefined) return "belongs to a delivery that does not exist";
  const delivery = unlessDamaged(() => decodeDelivery(text));
  if (delivery === undefined) return undefined;
  if (delivery.status !== "pending") return `waits, but its delivery is ${delivery.status}`;
  return delivery.cycle === due.cycle && delivery.order?.place === order.place
    ? undefined
    : "disagrees with its delivery";
}

export async function checkHeld({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const held = parseHeld(value);
  if (held === undefined) return "cannot be read";
  const id = { keyId: held.keyId, ...HELD.id(key) };
  const text = await storage.getItem(SEQUENCE.key(id));
  // A damaged row is reported where it is stored.
  return parseRow(text)?.busy !== false ? undefined : "holds up a sequence that is not busy";
}
