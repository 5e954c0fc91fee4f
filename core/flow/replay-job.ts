/** The replay job: what is exhausted gets another cycle, by the clock instead of by hand. */
import Bottleneck from "bottleneck";
import { failedOf } from "../model/keys.ts";
import { isLive, type Subscription } from "../model/subscription.ts";
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

/** Deliveries moved in one beat, of however many subscriptions; the next comes when their due times are used up. */
const BEAT = 100;

/** Replays `failed`/`exhausted` deliveries of active subscriptions. @returns how many were moved */
export type ReplayJob = (options: ReplayJobOptions, signal: AbortSignal) => Promise<number>;

export function createReplayJob(deps: {
  readonly storage: Pick<Storage, "range">;
  readonly replay: Replay;
  readonly clock: Clock;
}): ReplayJob {
  const { storage, replay, clock } = deps;

  /** Active subscriptions in whose replay store there is something. */
  async function* candidates(): AsyncGenerator<Subscription, undefined> {
    for await (const { value } of everyEntry(storage, "subscription:")) {
      const subscription = decodeSubscription(value);
      if (!isLive(subscription) || subscription.status !== "active") continue;
      if ((await storage.range(failedOf(subscription.id), { limit: 1 })).length > 0) yield subscription;
    }
  }

  return async ({ olderThanMs, maxAgeMs, maxReplays, limit, perSecond }, signal) => {
    // What fails again while this run goes on is for the next one.
    const youngest = clock.now() - olderThanMs;
    const due = candidates();
    let subscription: Subscription | undefined;
    let moved = 0;

    async function beat(): Promise<number> {
      const began = clock.monotonic();
      let went = 0;
      while (went < BEAT && moved + went < limit && !signal.aborted) {
        subscription ??= (await due.next()).value;
        if (subscription === undefined) break;
        const one = await replay.failed({
          subscription,
          since: clock.now() - maxAgeMs,
          limit: Math.min(BEAT - went, limit - moved - went),
          perSecond,
          startAt: clock.now() + (went * 1_000) / perSecond - (clock.monotonic() - began),
          only: ({ reason, failedAt, cycle }) => reason === "exhausted" && failedAt <= youngest && cycle < maxReplays,
        });
        went += one.replayed;
        if (!one.more || one.replayed === 0) subscription = undefined;
      }
      return went;
    }

    // A run that is cut off leaves nothing half done: what was moved is pending, the rest is found by the next one.
    const pace = new Bottleneck({ maxConcurrent: 1, minTime: Math.ceil((BEAT * 1_000) / perSecond) });
    const stop = (): void => void pace.stop({ dropWaitingJobs: true }).catch(() => undefined);
    signal.addEventListener("abort", stop, { once: true });
    try {
      for (let went = BEAT; went === BEAT && moved < limit && !signal.aborted; moved += went)
        went = await pace.schedule(beat);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener("abort", stop);
      await due.return(undefined);
    }
    return moved;
  };
}
