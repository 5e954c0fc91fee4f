/** The replay job: what is exhausted gets another cycle, by the clock instead of by hand. */
import Bottleneck from "bottleneck";
import { failedOf } from "../model/keys.ts";
import { isLive } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import type { Replay } from "./replay.ts";
import { decodeSubscription, everyEntry } from "./directory.ts";

export interface ReplayJobOptions {
  /** Only what failed at least this long ago, ms. */
  readonly olderThanMs: number;
  /** Only events accepted at most this long ago, ms. */
  readonly maxAgeMs: number;
  /** Only deliveries that were replayed fewer times than this. */
  readonly maxReplays: number;
  /** Most deliveries in one run. */
  readonly limit: number;
  readonly perSecond: number;
}

/** Deliveries moved in one go; the next go comes when their due times are used up. */
const BATCH = 100;

/** Replays `failed`/`exhausted` deliveries of active subscriptions. @returns how many were moved */
export type ReplayJob = (options: ReplayJobOptions, signal: AbortSignal) => Promise<number>;

export function createReplayJob(deps: {
  readonly storage: Pick<Storage, "range">;
  readonly replay: Replay;
  readonly clock: Clock;
}): ReplayJob {
  const { storage, replay, clock } = deps;

  return async ({ olderThanMs, maxAgeMs, maxReplays, limit, perSecond }, signal) => {
    // A run that is cut off leaves nothing half done: what was moved is pending, the rest is found by the next one.
    const pace = new Bottleneck({ maxConcurrent: 1, minTime: Math.ceil((BATCH * 1_000) / perSecond) });
    let moved = 0;
    for await (const { value } of everyEntry(storage, "subscription:")) {
      const subscription = decodeSubscription(value);
      if (!isLive(subscription) || subscription.status !== "active") continue;
      if ((await storage.range(failedOf(subscription.id), { limit: 1 })).length === 0) continue;
      const youngest = clock.now() - olderThanMs;
      for (let more = true; more && moved < limit && !signal.aborted;) {
        const went = await pace.schedule(() =>
          replay.failed({
            subscription,
            since: clock.now() - maxAgeMs,
            limit: Math.min(BATCH, limit - moved),
            perSecond,
            only: ({ reason, failedAt, cycle }) => reason === "exhausted" && failedAt <= youngest && cycle < maxReplays,
          }),
        );
        moved += went.replayed;
        more = went.more && went.replayed > 0;
      }
      if (moved >= limit || signal.aborted) break;
    }
    return moved;
  };
}
