/** Commits on conditions that may no longer hold; updates a subscription by one, repeated while other commits come first. */
import { ConflictError } from "../model/errors.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { isLive } from "../model/subscription.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readTexts } from "./damage.ts";
import { readSubscription, refuseOutline } from "./subscription-record.ts";

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

interface Revision {
  readonly next: Subscription;
  /** More changes for the same commit. */
  readonly more: readonly Change[];
}

interface Loaded {
  readonly text: string;
  readonly now: Subscription;
}

export interface OptimisticUpdate {
  /** Loads a live subscription and its record's text. @throws Problem NOT_FOUND, DamagedRecordError */
  load(keyId: string, id: string): Promise<Loaded>;
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

/** Loads a live subscription; of one that is damaged, its outline. @throws Problem NOT_FOUND */
export async function loadOutlined(
  storage: Pick<Storage, "getItem" | "getMany">,
  keyId: string,
  id: string,
): Promise<Loaded> {
  const key = SUBSCRIPTION.key({ keyId, id });
  const [text] = await readTexts(storage, [key]);
  const now = text === undefined ? undefined : readSubscription(text, key);
  if (text === undefined || !isLive(now)) throw noSuch("subscription");
  return { text, now };
}

export function createOptimisticUpdate(storage: Pick<Storage, "getItem" | "getMany" | "commit">): OptimisticUpdate {
  const load: OptimisticUpdate["load"] = async (keyId, id) => {
    const loaded = await loadOutlined(storage, keyId, id);
    refuseOutline(loaded.now);
    return loaded;
  };
  return {
    load,
    revise: (keyId, id, change) =>
      retryOnConflict(async () => {
        const { text, now } = await load(keyId, id);
        const made = await change(now);
        if (made === undefined) return { was: now, next: now };
        await storage.commit([SUBSCRIPTION.put({ keyId, id }, made.next, text), ...made.more]);
        return { was: now, next: made.next };
      }),
  };
}

/**
 * Commits on conditions that may no longer hold.
 * @returns false, with nothing written, when a condition no longer holds
 * @throws StorageError
 */
export async function tryCommit(storage: Pick<Storage, "commit">, changes: readonly Change[]): Promise<boolean> {
  try {
    await storage.commit(changes);
    return true;
  } catch (error) {
    if (error instanceof ConflictError) return false;
    throw error;
  }
}
