/** Checks the rows of ordered subscriptions: who waits, and that each sequence that is busy has somebody whose turn it is. */
import { DAMAGED } from "../model/kind.ts";
import { DELIVERY, DUE, HELD, SEQUENCE, WAITING } from "../model/schema.ts";
import type { Entry } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { Readable } from "./verify-wide.ts";

export async function checkSequence({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { subscriptionId, sequence } = SEQUENCE.id(key);
  const row = SEQUENCE.orThrow(value);
  const [first] = await storage.range(WAITING.under({ subscriptionId, sequence }), { limit: 1 });
  if (!row.busy) return first === undefined ? undefined : "is idle, but deliveries wait in it";
  const held = await storage.getItem(HELD.key({ subscriptionId, sequence }));
  if (held !== undefined) return undefined;
  for await (const line of everyEntry(storage, DUE.under({ subscriptionId }))) {
    const due = DUE.orThrow(line.value, line.key);
    if (due.damaged !== undefined || due.order?.sequence === sequence) return undefined;
  }
  return "is busy, but it is nobody's turn";
}

export async function checkWaiting({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const { cycle, order, ...id } = WAITING.orThrow(value, key);
  const delivery = DELIVERY.read(await storage.getItem(DELIVERY.key(id)));
  if (delivery === undefined) return "belongs to a delivery that does not exist";
  if (delivery === DAMAGED) return undefined;
  if (delivery.status !== "pending") return `waits, but its delivery is ${delivery.status}`;
  return delivery.cycle === cycle && delivery.order?.place === order?.place ? undefined : "disagrees with its delivery";
}

export async function checkHeld({ key, value }: Entry, storage: Readable): Promise<string | undefined> {
  const held = HELD.orThrow(value);
  const row = SEQUENCE.read(await storage.getItem(SEQUENCE.key({ ...held, ...HELD.id(key) })));
  // A damaged row is reported where it is stored.
  return row === DAMAGED || row?.busy === true ? undefined : "holds up a sequence that is not busy";
}
