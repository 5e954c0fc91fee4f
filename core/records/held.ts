/** Holds up a sequence behind a failed delivery, until that is replayed or skipped. */
import type { Delivery, SequencePlace } from "../model/delivery.ts";
import { heldKey, heldOf } from "../model/keys.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { retryOnConflict } from "./optimistic-update.ts";
import { passOn } from "./sequences.ts";

const PAGE = 500;

/** A failed delivery that holds up its sequence. */
export interface HeldDelivery {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly sequence: number;
  readonly ordinal: string;
  readonly place: number;
  /** Epoch ms. */
  readonly since: number;
  readonly eventId: string;
}

/** Returns what lets a failed head hold up its sequence. */
export const holdUp = ({ keyId, eventId, ordinal, updatedAt, subscriptionId }: Delivery, order: SequencePlace) =>
  ({
    op: "put",
    key: heldKey(subscriptionId, order.sequence),
    value: `${keyId} ${ordinal} ${order.place} ${updatedAt} ${eventId}`,
  }) satisfies Change;

/** @throws SyntaxError when it cannot be read */
export function parseHeld(key: string, value: string): HeldDelivery {
  const [, subscriptionId = "", sequence] = key.split(":");
  const [keyId = "", ordinal = "", place, since, eventId] = value.split(" ");
  if (eventId === undefined) throw new SyntaxError("the text is not that of a held delivery");
  return {
    keyId,
    subscriptionId,
    sequence: Number(sequence),
    ordinal,
    place: Number(place),
    since: Number(since),
    eventId,
  };
}

/** Lists the deliveries that hold up a sequence of the subscription: at most one for each. */
export async function heldOfSubscription(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
): Promise<readonly HeldDelivery[]> {
  const rows = await storage.range(heldOf(subscriptionId), { limit: PAGE });
  return rows.map(({ key, value }) => parseHeld(key, value));
}

/**
 * Skips a held delivery: it stays failed, and those behind it go on.
 * @param also more changes for the same commit
 * @returns false when it holds up nothing any more
 * @throws StorageError; Problem CONFLICT
 */
export async function skipHeld(
  storage: Pick<Storage, "getMany" | "range" | "commit"> & { readonly queue: Pick<Storage["queue"], "add"> },
  held: HeldDelivery,
  also: readonly Change[] = [],
): Promise<boolean> {
  const { keyId, subscriptionId, sequence, place, ordinal } = held;
  const key = heldKey(subscriptionId, sequence);
  return await retryOnConflict(async () => {
    const [value] = await storage.getMany([key]);
    if (value === undefined || parseHeld(key, value).ordinal !== ordinal) return false;
    const { changes, next } = await passOn(storage, { keyId, subscriptionId, order: { sequence, place } });
    await storage.commit([{ op: "delete", key, if: value }, ...changes, ...also]);
    if (next !== undefined) storage.queue.add([next]);
    return true;
  });
}

/** Skips whatever is held of a subscription that was disabled or deleted, so that what waits behind it can end. */
export async function skipAllHeld(
  storage: Parameters<typeof skipHeld>[0],
  subscriptionId: string,
): Promise<readonly HeldDelivery[]> {
  const held = await heldOfSubscription(storage, subscriptionId);
  for (const one of held) await skipHeld(storage, one);
  return held;
}
