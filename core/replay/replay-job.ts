/** The replay job gives exhausted deliveries another cycle, on a schedule instead of by hand. */
import { setNewest } from "../lib/bounded-map.ts";
import { createCautiousNow } from "../lib/cautious-now.ts";
import { DAMAGED } from "../model/kind.ts";
import { FAILED } from "../model/schema.ts";
import { isLive, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import type { Replay } from "./replay.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { unlessUnreadable } from "../records/damage.ts";
import { createPacer } from "../records/pacer.ts";

interface ReplayJobOptions {
  /** Only deliveries that failed at least this long ago, ms. */
  readonly olderThanMs: number;
  /** Only events accepted at most this long ago, ms. */
  readonly maxAgeMs: number;
  /** Only deliveries that were replayed fewer times than this. */
  readonly maxReplays: number;
  /** Most deliveries in one run. */
  readonly limit: number;
  readonly perSecond: number;
}

/** Subscriptions whose outdated failures are remembered, and for how long, ms. */
const STARTS_HELD = 10_000;
const WHOLE_AGAIN_MS = 86_400_000;
/** Deliveries moved in one beat, over all subscriptions; the next beat comes when their due times have passed. */
const BEAT = 100;
/** How far the clocks of nodes may differ, ms. */
const SKEW_MS = 60_000;

/** Replays `failed`/`exhausted` deliveries of active subscriptions. @returns how many were moved */
type ReplayJob = (options: ReplayJobOptions, signal: AbortSignal) => Promise<number>;

export function createReplayJob(deps: {
  readonly storage: Pick<Storage, "range">;
  readonly subscriptionCache: Pick<SubscriptionCache, "get">;
  readonly replay: Replay;
  readonly clock: Clock;
}): ReplayJob {
  const { storage, subscriptionCache, replay, clock } = deps;
  /** What is too old by it stays passed over for a day: a wall clock that is set forwards for a while must not say so. */
  const cautiousNow = createCautiousNow(clock);
  const starts = new Map<string, { readonly after: string; readonly since: number }>();
  let rule = "";

  /** The subscription that was served last. The next run begins behind it: one that fails all the time takes all of a run. */
  let served: string | undefined;

  /** Yields active subscriptions with failed deliveries: those behind the one that was served last, then the others. */
  async function* candidates(): AsyncGenerator<Subscription, undefined> {
    const from = served === undefined ? undefined : FAILED.end({ subscriptionId: served });
    yield* between(from, undefined);
    if (from !== undefined) yield* between(undefined, from);
  }

  /** Yields those between two keys, found by skipping from one subscription to the next. */
  async function* between(from: string | undefined, to: string | undefined): AsyncGenerator<Subscription, undefined> {
    for (let after = from; ;) {
      const [entry] = await storage.range(FAILED.start, { after, limit: 1 });
      if (entry === undefined || (to !== undefined && entry.key > to)) return;
      const failed = FAILED.read(entry.value);
      // A damaged line does not say whose it is: the next one of the same subscription does.
      if (failed === DAMAGED) {
        after = entry.key;
        continue;
      }
      const { subscriptionId } = FAILED.id(entry.key);
      after = FAILED.end({ subscriptionId });
      const subscription = await activeOf(failed.keyId, subscriptionId);
      if (subscription !== undefined) yield subscription;
    }
  }

  /** Returns the subscription if it is active. A damaged one is passed over, so that the others get their turn. */
  async function activeOf(keyId: string, id: string): Promise<Subscription | undefined> {
    const subscription = await unlessUnreadable(Promise.resolve(subscriptionCache.get(keyId, id)));
    return isLive(subscription) && subscription.status === "active" ? subscription : undefined;
  }

  /** Returns where a rule continues among a subscription's failed deliveries: those before it are outdated. */
  function startOf(id: string): string | undefined {
    const known = starts.get(id);
    return known === undefined || clock.monotonic() - known.since > WHOLE_AGAIN_MS ? undefined : known.after;
  }

  function remember(id: string, after: string | undefined): void {
    if (after === undefined) return;
    const known = starts.get(id);
    const since = startOf(id) === undefined ? clock.monotonic() : (known?.since ?? 0);
    setNewest(starts, id, { after, since }, STARTS_HELD);
  }

  return async ({ olderThanMs, maxAgeMs, maxReplays, limit, perSecond }, signal) => {
    const asked = `${maxAgeMs} ${maxReplays}`;
    if (rule !== asked) starts.clear();
    rule = asked;
    // A delivery that fails again during this run waits for the next one.
    const youngest = clock.now() - olderThanMs;
    // A later one is from a clock that was ahead: waiting for it could take longer than the job asks for.
    const ripe = (failedAt: number): boolean =>
      failedAt <= youngest || failedAt > clock.now() + Math.max(olderThanMs, SKEW_MS);
    const due = candidates();
    let subscription: Subscription | undefined;
    let moved = 0;

    async function beat(): Promise<number> {
      const began = clock.monotonic();
      let went = 0;
      while (went < BEAT && moved + went < limit && !signal.aborted) {
        subscription ??= (await due.next()).value;
        if (subscription === undefined) break;
        const current = await activeOf(subscription.keyId, subscription.id);
        // Disabled since it was found, and perhaps enabled again: what had failed before that waits for the next run.
        if (current?.generation !== subscription.generation) {
          subscription = undefined;
          continue;
        }
        const one = await replay.failed({
          subscription: current,
          since: clock.now() - maxAgeMs,
          limit: Math.min(BEAT - went, limit - moved - went),
          perSecond,
          startsInMs: (went * 1_000) / perSecond - (clock.monotonic() - began),
          after: startOf(subscription.id),
          // A replay by hand may change that, so once a day all failed deliveries are read.
          outdated: ({ cycle, reason }, acceptedAt) =>
            reason !== "exhausted" || cycle >= maxReplays || acceptedAt < cautiousNow() - maxAgeMs,
          only: ({ reason, failedAt, cycle }) => reason === "exhausted" && ripe(failedAt) && cycle < maxReplays,
        });
        went += one.replayed;
        if (one.replayed > 0) served = subscription.id;
        remember(subscription.id, one.outdatedTo);
        if (!one.more || one.replayed === 0) subscription = undefined;
      }
      return went;
    }

    // An interrupted run leaves nothing half done: what was moved is pending, the next run finds the rest.
    using pacer = createPacer(clock, { maxConcurrent: 1, minTime: Math.ceil((BEAT * 1_000) / perSecond) }, signal);
    try {
      for (let went: number | undefined = BEAT; went === BEAT && moved < limit && !signal.aborted;) {
        went = await pacer.schedule(beat);
        moved += went ?? 0;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      await due.return(undefined);
    }
    return moved;
  };
}
