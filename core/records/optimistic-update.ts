/** Updates a subscription by read, change and conditional commit, repeated while other commits come first. */
import { ConflictError } from "../model/errors.ts";
import { subscriptionKey } from "../model/keys.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { Problem } from "../model/problem.ts";
import { isLive } from "../model/subscription.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { decodeSubscription } from "./subscription-cache.ts";

/** How often a step that lost a race is repeated: more often than subscriptions of one key can race at once. */
const TRIES = 64;

/** Repeats `step` while its commit is refused. @throws Problem CONFLICT when the races do not end */
export async function retryOnConflict<Result>(step: () => Promise<Result>): Promise<Result> {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
    }
  }
  throw new Problem("CONFLICT", "Other changes to this subscription came first, too often. Send the request again.");
}

export interface Revision {
  readonly next: Subscription;
  /** More changes for the same commit. */
  readonly more: readonly Change[];
}

export interface OptimisticUpdate {
  /** Loads a live subscription and its record's text. @throws Problem NOT_FOUND */
  load(keyId: string, id: string): Promise<{ readonly text: string; readonly now: Subscription }>;
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

export function createOptimisticUpdate(storage: Pick<Storage, "getItem" | "commit">): OptimisticUpdate {
  const load: OptimisticUpdate["load"] = async (keyId, id) => {
    const text = await storage.getItem(subscriptionKey(keyId, id));
    const now = text === undefined ? undefined : decodeSubscription(text);
    if (text === undefined || !isLive(now)) throw new Problem("NOT_FOUND", "There is no such resource.");
    return { text, now };
  };
  return {
    load,
    revise: (keyId, id, change) =>
      retryOnConflict(async () => {
        const { text, now } = await load(keyId, id);
        const made = await change(now);
        if (made === undefined) return { was: now, next: now };
        const value = JSON.stringify(made.next);
        await storage.commit([{ op: "put", key: subscriptionKey(keyId, id), value, if: text }, ...made.more]);
        return { was: now, next: made.next };
      }),
  };
}
