/** Holds up a sequence behind a failed delivery, until that is replayed or skipped. */
import type { Delivery, SequencePlace } from "../model/delivery.ts";
import { DAMAGED } from "../model/kind.ts";
import { HELD, type HeldRow, SUBSCRIPTION } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readTexts } from "./damage.ts";
import { everyPage } from "./every-entry.ts";
import { transact } from "./transaction.ts";
import { passOn } from "./sequences.ts";
import { isOutline, readSubscription } from "./subscription-record.ts";

const PAGE = 500;

interface HeldDelivery {
  readonly subscriptionId: string;
  readonly sequence: number;
  /** Absent when its row is damaged: it can be skipped all the same. */
  readonly row?: HeldRow;
}

/** Returns what lets a failed head hold up its sequence. */
export const holdUp = (failed: Delivery, { sequence, place }: SequencePlace): Change =>
  HELD.put({ ...failed, sequence }, { ...failed, place, since: failed.updatedAt });

function heldAt({ key, value }: Entry): HeldDelivery {
  const row = HELD.read(value);
  return { ...HELD.id(key), ...(row !== DAMAGED && { row }) };
}

/** Lists the deliveries that hold up a sequence of the subscription: at most one for each. */
export async function heldOfSubscription(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
): Promise<readonly HeldDelivery[]> {
  return (await storage.range(HELD.under({ subscriptionId }), { limit: PAGE })).map(heldAt);
}

type SkipStorage = Pick<Storage, "getItem" | "getMany" | "range" | "commit"> & {
  readonly queue: Pick<Storage["queue"], "add">;
};

/**
 * Skips a held delivery: it stays failed, and those behind it go on.
 * @param also more changes for the same commit
 * @returns false when it holds up nothing any more
 * @throws StorageError; Problem CONFLICT
 */
export async function skipHeld(
  storage: SkipStorage,
  keyId: string,
  { subscriptionId, sequence, row }: HeldDelivery,
  also: readonly Change[] = [],
): Promise<boolean> {
  const passed = await transact(storage, async (tx) => {
    const now = await tx.get(HELD, { subscriptionId, sequence });
    if (now === undefined || (now === DAMAGED ? undefined : now.ordinal) !== row?.ordinal) return undefined;
    tx.delete(HELD, { subscriptionId, sequence });
    const passing = await passOn(storage, { keyId, subscriptionId, order: { sequence, place: row?.place ?? 0 } });
    tx.add(...passing.changes, ...also);
    return passing;
  });
  if (passed?.next !== undefined) storage.queue.add([passed.next]);
  return passed !== undefined;
}

/** Skips whatever is held of a subscription that holds up nothing any more, so that what waits behind it goes on. */
export async function skipAllHeld(
  storage: SkipStorage,
  { keyId, id }: Pick<Subscription, "keyId" | "id">,
): Promise<readonly HeldDelivery[]> {
  const held = await heldOfSubscription(storage, id);
  for (const one of held) await skipHeld(storage, keyId, one);
  return held;
}

/** Returns true when a failed delivery of it holds up those behind it. */
export const holdsUp = (sub: Subscription | undefined): boolean =>
  sub?.status === "active" && sub.deletedAt === undefined && sub.ordered === true && sub.onFailed === "hold";

function mayHoldUp(text: string | undefined, key: string): boolean {
  const sub = text === undefined ? undefined : readSubscription(text, key);
  return holdsUp(sub) || (sub !== undefined && isOutline(sub));
}

/**
 * Skips what is held although its subscription holds up nothing: a crash, or a delivery that failed by settings that were
 * changed meanwhile, leaves that behind. A damaged row, or one of a damaged subscription, stays: nobody can say whether it
 * holds up anything; see `skipAllHeld`.
 * @returns how many were skipped
 */
export async function skipForgotten(storage: SkipStorage): Promise<number> {
  let skipped = 0;
  for await (const page of everyPage(storage, HELD.start)) {
    const known = page.map(heldAt).filter(({ row }) => row !== undefined);
    const keys = known.map(({ row, subscriptionId }) =>
      SUBSCRIPTION.key({ keyId: (row as HeldRow).keyId, id: subscriptionId }),
    );
    const texts = keys.length === 0 ? [] : await readTexts(storage, keys);
    for (const [i, held] of known.entries()) {
      if (mayHoldUp(texts[i], keys[i] as string)) continue;
      if (await skipHeld(storage, (held.row as HeldRow).keyId, held)) skipped++;
    }
  }
  return skipped;
}
