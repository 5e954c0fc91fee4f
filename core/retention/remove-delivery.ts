/**
 * Finds every row of one delivery, in whatever state it is, and returns what deletes them. When it goes in order, those
 * behind it go on; one that holds them up may leave that row, so that they wait until a skip. Its attempt under way finds
 * its line gone, and stores nothing.
 */
import type { Delivery, Due, SequencePlace } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { DAMAGED } from "../model/kind.ts";
import { ATTEMPTS, DELIVERY, DUE, FAILED, HELD, WAITING } from "../model/schema.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readTexts } from "../records/damage.ts";
import { holdsIt } from "../records/sequence-rows.ts";
import { leaveSequence, passOn } from "../records/sequences.ts";
import { everyEntry } from "../records/every-entry.ts";

export interface RemovedDelivery {
  /** Conditional on what was read: a commit that is refused has read too early. */
  readonly changes: readonly Change[];
  /** The line of the delivery whose turn comes. */
  readonly next?: Due;
}

type Readable = Pick<Storage, "getItem" | "getMany" | "range">;
/** Removes deliveries, and queues those whose turn comes by that. */
export type Removing = Readable & Pick<Storage, "commit"> & { readonly queue: Pick<Storage["queue"], "add"> };
type Accepted = Pick<RelayEvent, "keyId" | "ordinal" | "acceptedAt">;

/** The place of a delivery: its line in the due index, its row while it waits, and its row while it holds others up. */
interface Place {
  readonly order?: SequencePlace;
  readonly due?: Entry;
  readonly waits?: Entry;
  readonly holds?: Entry;
}

/** Deletes the row as it was read; one that the storage cannot read, as it is. */
export const removalOf = (key: string, text: string): Change =>
  text === "" ? { op: "delete", key } : { op: "delete", key, if: text };

/** Queues those whose turn comes, after the commit that has removed the ones before them. */
export function addNext({ queue }: Removing, removed: readonly RemovedDelivery[]): void {
  const lines = removed.flatMap(({ next }) => next ?? []);
  if (lines.length > 0) queue.add(lines);
}

/** Returns what deletes the attempts of earlier cycles. @throws StorageError */
export async function attemptRemovals(
  storage: Pick<Storage, "range">,
  { subscriptionId, ordinal }: Pick<Delivery, "subscriptionId" | "ordinal">,
): Promise<readonly Change[]> {
  const changes: Change[] = [];
  for await (const { key } of everyEntry(storage, ATTEMPTS.under({ subscriptionId, ordinal })))
    changes.push({ op: "delete", key });
  return changes;
}

/**
 * @param staysHeld leaves those that it holds up waiting
 * @throws StorageError
 */
export async function removeDelivery(
  storage: Readable,
  event: Accepted,
  subscriptionId: string,
  staysHeld = false,
): Promise<RemovedDelivery> {
  const { keyId, ordinal } = event;
  const key = DELIVERY.key({ subscriptionId, ordinal });
  const [text] = await readTexts(storage, [key]);
  const delivery = DELIVERY.read(text, key);
  const changes: Change[] = [text === undefined ? { op: "check", key, if: null } : removalOf(key, text)];
  if (text !== undefined) changes.push(FAILED.delete({ subscriptionId, ordinal }));
  if (delivery === DAMAGED || (delivery?.cycle ?? 0) > 0)
    changes.push(...(await attemptRemovals(storage, { subscriptionId, ordinal })));
  const place =
    delivery === DAMAGED
      ? await search(storage, subscriptionId, ordinal)
      : await placeOf(storage, event, subscriptionId, delivery);
  const { order, due, waits } = place;
  const holds = staysHeld ? undefined : place.holds;
  for (const row of [due, holds]) if (row !== undefined) changes.push(removalOf(row.key, row.value));
  if (order === undefined) return { changes };
  const turn = { keyId, subscriptionId, order };
  if (waits !== undefined) return { changes: [...changes, ...(await leaveSequence(storage, turn, [waits]))] };
  if (due === undefined && holds === undefined) return { changes };
  const { changes: more, next } = await passOn(storage, turn);
  return { changes: [...changes, ...more], next };
}

async function placeOf(
  storage: Readable,
  { ordinal, acceptedAt }: Accepted,
  subscriptionId: string,
  delivery: Delivery | undefined,
): Promise<Place> {
  const order = delivery?.order;
  // Without a record, only the acceptance has been written.
  const dueAt = delivery === undefined ? acceptedAt : (delivery.nextAttemptAt ?? 0);
  const keys = [DUE.key({ subscriptionId, dueAt, ordinal })];
  if (order !== undefined)
    keys.push(
      WAITING.key({ subscriptionId, ...order, ordinal }),
      HELD.key({ subscriptionId, sequence: order.sequence }),
    );
  const [due, waits, holds] = (await readTexts(storage, keys)).map((value, i) =>
    value === undefined ? undefined : { key: keys[i] as string, value },
  );
  const own = holdsIt(holds?.value, ordinal);
  return { order, due, waits, ...(own && { holds }) };
}

/** Finds the place of a delivery whose record is damaged, by reading what there is of its subscription. */
async function search(storage: Readable, subscriptionId: string, ordinal: string): Promise<Place> {
  const due = await findRow(storage, DUE.under({ subscriptionId }), ({ key }) => key.endsWith(`:${ordinal}`));
  const waits = await findRow(storage, WAITING.under({ subscriptionId }), ({ key }) => key.endsWith(`:${ordinal}`));
  const holds = await findRow(storage, HELD.under({ subscriptionId }), ({ value }) => holdsIt(value, ordinal));
  return { order: orderOf(waits ?? holds, due), due, waits, holds };
}

function orderOf(row: Entry | undefined, due: Entry | undefined): SequencePlace | undefined {
  if (row !== undefined) {
    const held = HELD.has(row.key) && HELD.read(row.value);
    const { sequence, place } = held
      ? { ...HELD.id(row.key), place: held === DAMAGED ? 0 : held.place }
      : WAITING.id(row.key);
    return { sequence, place };
  }
  const said = / @(\d{1,3})\.(\d{1,15})$/.exec(due?.value ?? "");
  return said === null ? undefined : { sequence: Number(said[1]), place: Number(said[2]) };
}

async function findRow(
  storage: Pick<Storage, "range">,
  prefix: string,
  is: (row: Entry) => boolean,
): Promise<Entry | undefined> {
  for await (const row of everyEntry(storage, prefix)) if (is(row)) return row;
  return undefined;
}
