/** Reads a delivery as it is, with the rows by which it is pending: its line in the due index, or its place in order. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { deliveryKey, dueKey, parseDue, waitingKey } from "../model/keys.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readTexts } from "../records/damage.ts";
import { endLine, endWaiting } from "../records/sequences.ts";
import { freshDelivery } from "../records/delivery-records.ts";
import { replayedRecord } from "./read-delivery.ts";

/** What finds an event. */
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

/** @returns `undefined` when it has neither record nor line, or when both cannot be read */
export async function readCurrent(
  storage: Pick<Storage, "getItem" | "getMany">,
  event: EventPlace,
  subscriptionId: string,
): Promise<CurrentDelivery | undefined> {
  const { id: eventId, keyId, ordinal } = event;
  const [text] = await readTexts(storage, [deliveryKey(subscriptionId, ordinal)]);
  const known = text === undefined ? undefined : await replayedRecord(storage, text, event, subscriptionId);
  if (text !== undefined && known === undefined) return undefined;
  if (known !== undefined && known.status !== "pending") return { delivery: known, text: text as string };
  const at = known?.nextAttemptAt ?? ordinalTime(ordinal);
  const keys = known === undefined ? [dueKey({ subscriptionId, dueAt: at, ordinal })] : lineKeys(known, at);
  const [value, waiting] = await readTexts(storage, keys);
  const line = value === undefined ? undefined : parseDue(keys[0] as string, value);
  const waits = waiting === undefined ? undefined : { key: keys[1] as string, value: waiting };
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
  storage: Pick<Storage, "getMany" | "range" | "commit" | "queue">,
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
  dueKey({ subscriptionId, dueAt, ordinal }),
  ...(order === undefined ? [] : [waitingKey(subscriptionId, order, ordinal)]),
];
