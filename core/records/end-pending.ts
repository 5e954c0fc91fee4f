/** Ends pending deliveries that no node has leased: each commit does so together with the order that they stand in. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { endedChanges } from "./delivery-records.ts";
import { leaveSequence, passOn, type OrderedDue } from "./sequences.ts";

type EndStorage = Pick<Storage, "getMany" | "range" | "commit"> & {
  readonly queue: Pick<Storage["queue"], "withdraw" | "add">;
};

/** A delivery that waits for its turn, as it is to end, and the row by which it waits. */
export interface EndedWaiting {
  readonly over: Delivery;
  readonly row: Entry;
}

/**
 * Ends a delivery that has a line in the due index. If it goes in order, the next one gets its turn.
 * @param leased whether to take it from a node that has leased it: the result of an attempt that is under way is lost
 * @returns false, with nothing changed, when a node has leased it
 * @throws ConflictError, StorageError
 */
export async function endLine(
  storage: EndStorage,
  line: Due,
  over: Delivery,
  { also = [], leased = false }: { readonly also?: readonly Change[]; readonly leased?: boolean } = {},
): Promise<boolean> {
  const { order } = over;
  const passed = order === undefined ? undefined : await passOn(storage, { ...over, order });
  const changes = [...endedChanges(line, over), ...(passed?.changes ?? []), ...also];
  if (!(await storage.queue.withdraw(line, changes))) {
    if (!leased) return false;
    await storage.commit(changes);
  }
  if (passed?.next !== undefined) storage.queue.add([passed.next]);
  return true;
}

/** Ends deliveries that wait for their turn in one sequence. @throws ConflictError, StorageError */
export async function endWaiting(
  storage: EndStorage,
  of: Pick<OrderedDue, "keyId" | "subscriptionId" | "order">,
  ends: readonly EndedWaiting[],
  also: readonly Change[] = [],
): Promise<void> {
  const rows = ends.map(({ row }) => row);
  const ended = ends.flatMap(({ over }) => endedChanges(undefined, over));
  await storage.commit([...ended, ...(await leaveSequence(storage, of, rows)), ...also]);
}
