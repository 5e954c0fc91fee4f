/**
 * Takes an event out of the order of its subscriptions before it is erased. A delivery whose request is on the wire ends
 * first: otherwise the one behind it would begin meanwhile, and the receiver might read it earlier.
 */
import type { RelayEvent } from "../model/event.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY } from "../model/schema.ts";
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import { readOne } from "../records/damage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";

/** Ends what of an event is in order, after its attempts under way. @throws StorageError */
export type EndTurns = (event: Pick<RelayEvent, "keyId" | "id" | "ordinal">) => Promise<void>;

/** An attempt takes at most 30 s. One that a dead node has begun ends with its lease. */
const LONGEST_MS = 31_000;
const AGAIN_MS = 50;
/** A retry that is due later than this is not on the wire, though a node holds it. */
const RESTING_MS = 1_000;

export function createEndTurns(deps: {
  readonly storage: Pick<Storage, "getItem">;
  readonly subscriptionCache: Pick<SubscriptionCache, "of">;
  /** Cancels a pending delivery. @throws Problem DELIVERY_UNDER_WAY while a node holds it; others when it is not pending */
  readonly cancel: (keyId: string, eventId: string, subscriptionId: string) => Promise<void>;
  readonly clock: Clock;
}): EndTurns {
  const { storage, subscriptionCache, cancel, clock } = deps;

  async function isResting(subscriptionId: string, ordinal: string): Promise<boolean> {
    const delivery = unlessDamaged(await readOne(storage, DELIVERY, { subscriptionId, ordinal }));
    return (delivery?.nextAttemptAt ?? 0) > clock.now() + RESTING_MS;
  }

  /** @returns true when its attempt is under way */
  async function isUnderWay(keyId: string, eventId: string, subscriptionId: string): Promise<boolean> {
    try {
      await cancel(keyId, eventId, subscriptionId);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return error.code === "DELIVERY_UNDER_WAY";
    }
    return false;
  }

  return async ({ keyId, id, ordinal }) => {
    const until = clock.monotonic() + LONGEST_MS;
    for (const sub of await subscriptionCache.of(keyId)) {
      if (sub.ordered !== true) continue;
      while ((await isUnderWay(keyId, id, sub.id)) && !(await isResting(sub.id, ordinal))) {
        if (clock.monotonic() >= until) return;
        await clock.sleep(clock.now() + AGAIN_MS);
      }
    }
  };
}
