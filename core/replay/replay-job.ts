/** The replay job gives exhausted deliveries another cycle, on a schedule instead of by hand. */
import { setNewest } from "../lib/bounded-map.ts";
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

/** Subscriptions whose outdated failures are remembered, and for how long, ms: a replay by hand may change them. */
const STARTS_HELD = 10_000;
const WHOLE_AGAIN_MS = 86_400_000;
/** Deliveries moved in one beat, over all subscriptions; the next beat comes when their due times have passed. */
const BEAT = 100;
/** How far the clocks of nodes may differ, ms. */
const SKEW_MS = 60_000;

/** Replays `failed`/`exhausted` deliveries of active subscriptions. @returns how many were moved */
type ReplayJob = (options: ReplayJobOptions, signal: AbortSignal) => Promise<number>;

interface JobDeps {
  readonly storage: Pick<Storage, "range">;
  readonly subscriptionCache: Pick<SubscriptionCache, "get">;
  readonly replay: Replay;
  readonly clock: Clock;
}

export function createReplayJob(deps: JobDeps): ReplayJob {
  const { subscriptionCache, replay, clock } = deps;
  /** The subscription that was served last. The next run begins behind it: one that fails all the time takes all of a run. */
  let served: string | undefined;
  const starts = new Starts(clock);

  return async ({ olderThanMs, maxAgeMs, maxReplays, limit, perSecond }, signal) => {
    // A delivery that fails again during this run waits for the next one.
    const youngest = clock.now() - olderThanMs;
    // A later one is from a clock that was ahead: waiting for it could take longer than the job asks for.
    const ripe = (failedAt: number): boolean =>
      failedAt <= youngest || failedAt > clock.now() + Math.max(olderThanMs, SKEW_MS);
    const due = candidates(deps, served);
    starts.ofRule(maxReplays);
    let subscription: Subscription | undefined;
    let moved = 0;

    async function beat(): Promise<number> {
      const began = clock.monotonic();
      let went = 0;
      while (went < BEAT && moved < limit && !signal.aborted) {
        subscription ??= (await due.next()).value;
        if (subscription === undefined) break;
        const current = await activeOf(subscriptionCache, subscription.keyId, subscription.id);
        // Disabled since it was found, and perhaps enabled again: what had failed before that waits for the next run.
        if (current?.generation !== subscription.generation) {
          subscription = undefined;
          continue;
        }
        const { replayed, more, outdatedTo } = await replay.failed({
          subscription: current,
          since: clock.now() - maxAgeMs,
          limit: Math.min(BEAT - went, limit - moved),
          perSecond,
          startsInMs: (went * 1_000) / perSecond - (clock.monotonic() - began),
          after: starts.get(subscription.id),
          outdated: ({ cycle, reason }) => reason !== "exhausted" || cycle >= maxReplays,
          only: ({ reason, failedAt, cycle }) => reason === "exhausted" && ripe(failedAt) && cycle < maxReplays,
        });
        went += replayed;
        moved += replayed;
        if (replayed > 0) served = subscription.id;
        starts.set(subscription.id, outdatedTo);
        if (!more || replayed === 0) subscription = undefined;
      }
      return went;
    }

    // An interrupted run leaves nothing half done: what was moved is pending, the next run finds the rest.
    using pacer = createPacer(clock, { maxConcurrent: 1, minTime: Math.ceil((BEAT * 1_000) / perSecond) }, signal);
    try {
      for (let went: number | undefined = BEAT; went === BEAT && moved < limit && !signal.aborted;)
        went = await pacer.schedule(beat);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return moved;
  };
}

/** Knows where a rule continues among the failed deliveries of a subscription: those before it are outdated. */
class Starts {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #starts = new Map<string, { readonly after: string; readonly since: number }>();
  #maxReplays: number | undefined;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Forgets what another rule has found. */
  ofRule(maxReplays: number): void {
    if (this.#maxReplays !== maxReplays) this.#starts.clear();
    this.#maxReplays = maxReplays;
  }

  get(id: string): string | undefined {
    const known = this.#starts.get(id);
    return known === undefined || this.#clock.monotonic() - known.since > WHOLE_AGAIN_MS ? undefined : known.after;
  }

  set(id: string, after: string | undefined): void {
    if (after === undefined) return;
    const since = this.get(id) === undefined ? this.#clock.monotonic() : (this.#starts.get(id)?.since ?? 0);
    setNewest(this.#starts, id, { after, since }, STARTS_HELD);
  }
}

/** Yields active subscriptions with failed deliveries: those behind the one that was served last, then the others. */
async function* candidates(deps: JobDeps, served: string | undefined): AsyncGenerator<Subscription, undefined> {
  const from = served === undefined ? undefined : FAILED.end({ subscriptionId: served });
  yield* between(deps, from, undefined);
  if (from !== undefined) yield* between(deps, undefined, from);
}

/** Yields those between two keys, found by skipping from one subscription to the next. */
async function* between(
  { storage, subscriptionCache }: JobDeps,
  from: string | undefined,
  to: string | undefined,
): AsyncGenerator<Subscription, undefined> {
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
    const subscription = await activeOf(subscriptionCache, failed.keyId, subscriptionId);
    if (subscription !== undefined) yield subscription;
  }
}

/** Returns the subscription if it is active. A damaged one is passed over, so that the others get their turn. */
async function activeOf(
  cache: JobDeps["subscriptionCache"],
  keyId: string,
  id: string,
): Promise<Subscription | undefined> {
  const subscription = await unlessUnreadable(Promise.resolve(cache.get(keyId, id)));
  return isLive(subscription) && subscription.status === "active" ? subscription : undefined;
}
