/** Changes a subscription on what it is now. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import { noSuch } from "../model/problem.ts";
import { isLive, type Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readSubscription, refuseOutline } from "../records/subscription-record.ts";
import { transact, Tx } from "../records/transaction.ts";

interface Revision {
  readonly next: Subscription;
  readonly more: readonly Change[];
}

export interface Revising {
  /** Loads a live subscription. @throws Problem NOT_FOUND, DamagedRecordError */
  load(keyId: string, id: string): Promise<Subscription>;
  /**
   * Makes one change to a live subscription, based on its state at that moment.
   * @param change changes nothing itself, as it may be called again; `undefined`: nothing to do
   */
  revise(
    keyId: string,
    id: string,
    change: (was: Subscription) => MaybePromise<Revision | undefined>,
  ): Promise<{ readonly was: Subscription; readonly next: Subscription }>;
}

/** Reads a subscription; of one that is damaged, its outline. */
export async function readIn(tx: Tx, keyId: string, id: string): Promise<Subscription | undefined> {
  const key = SUBSCRIPTION.key({ keyId, id });
  const text = await tx.text(key);
  return text === undefined ? undefined : readSubscription(text, key);
}

async function loadIn(tx: Tx, keyId: string, id: string): Promise<Subscription> {
  const now = await readIn(tx, keyId, id);
  if (!isLive(now)) throw noSuch("subscription");
  return refuseOutline(now);
}

export const createRevising = (storage: Pick<Storage, "getItem" | "commit">): Revising => ({
  load: (keyId, id) => loadIn(new Tx(storage), keyId, id),
  revise: (keyId, id, change) =>
    transact(storage, async (tx) => {
      const was = await loadIn(tx, keyId, id);
      const made = await change(was);
      if (made === undefined) return { was, next: was };
      tx.put(SUBSCRIPTION, { keyId, id }, made.next);
      tx.add(...made.more);
      return { was, next: made.next };
    }),
});
