/** Answers queries on statistics: a range cut into columns for charts, sums, and the state of each subscription. */
import { DELIVERY, type Grain, WHOLE_RELAY, ordinalOf } from "../model/schema.ts";
import type { AttemptError } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import type { EndpointHealth, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { unlessDamaged } from "../model/kind.ts";
import { readEvent, readRecord } from "../records/damage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { EVERY, type Buckets, type StatsCollector } from "./collect.ts";
import { GRAINS, bucketStart } from "./rollups.ts";
import * as tally from "./bucket.ts";
import type { CountedRefusal, Counts, StatsBucket } from "./bucket.ts";

type StatsRange = "1h" | "24h" | "7d";
const GRAIN_OF: Readonly<Record<StatsRange, Grain>> = { "1h": "1m", "24h": "10m", "7d": "1h" };

/** One number per bucket; `null` where nothing was measured. */
type Column = readonly (number | null)[];

interface Sums {
  /** Of a key: accepted events. Of a subscription: those that it wanted. */
  readonly accepted: number;
  /** Deliveries that filters left out. */
  readonly filtered: number;
  readonly delivered: number;
  readonly failed: number;
  readonly attempts: number;
  /** Durations of attempts, ms. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

export interface Chart {
  readonly range: StatsRange;
  readonly stepMs: number;
  /** Epoch ms at which the first bucket begins. */
  readonly from: number;
  /** Columns of equal length, one place per bucket, oldest first. */
  readonly series: Readonly<Record<keyof Sums | "backlog", Column>> & {
    readonly refused: Readonly<Record<CountedRefusal, Column>>;
  };
  readonly totals: Sums & { readonly refused: Readonly<Record<CountedRefusal, number>> };
}

export interface SubscriptionStats extends Sums {
  readonly subscription: Subscription;
  /** Pending deliveries; counted up to 1,000. */
  readonly backlog: number;
  readonly health: EndpointHealth;
  /** The newest event's delivery. */
  readonly last?: Delivery;
  /** What its newest attempts were answered, or the stage at which they failed; the newest last. */
  readonly recent?: readonly (number | AttemptError)[];
}

interface KeyStats extends Chart {
  /** At most `MOST_GLANCES`: those with the most to tell, in the order of their creation. */
  readonly subscriptions: readonly SubscriptionStats[];
  readonly left: number;
}

/** Subscriptions that one answer tells of. Each costs three reads. */
const MOST_GLANCES = 1_000;
const GLANCES_AT_ONCE = 50;
/** Deliveries that one answer reads for the newest attempts, shared out over the subscriptions. */
const RECENT_READ = 3_000;

interface StatsQuery {
  /**
   * @param subscriptionId charts only that one; the list shows all
   * @param recent how many of the newest attempts of each subscription are listed
   */
  ofKey(keyId: string, range: StatsRange, subscriptionId?: string, recent?: number): Promise<KeyStats>;
  ofRelay(range: StatsRange): Promise<Chart>;
  sumsOf(keyId: string, range: StatsRange): Promise<Sums>;
}

export function createStatsQuery(deps: {
  readonly collector: Pick<StatsCollector, "read" | "pending">;
  readonly storage: Pick<Storage, "range" | "getMany">;
  readonly subscriptionCache: SubscriptionCache;
  readonly health: { state(subscriptionId: string): EndpointHealth };
  readonly clock: Pick<Clock, "now">;
}): StatsQuery {
  const { collector, storage, subscriptionCache, health, clock } = deps;

  async function read(
    keyId: string,
    range: StatsRange,
  ): Promise<{ readonly first: number; readonly buckets: Buckets }> {
    const grain = GRAIN_OF[range];
    const { stepMs, kept } = GRAINS[grain];
    const last = bucketStart(grain, clock.now());
    const first = last - (kept - 1) * stepMs;
    const read = await collector.read(keyId, grain, first);
    // A clock that was ahead has left buckets of a time to come: no range holds them before that time.
    return { first, buckets: new Map([...read].filter(([at]) => at <= last)) };
  }

  /** Tells of the subscriptions of a key, of one of them in any case. */
  async function glances(keyId: string, all: StatsBucket, named: string | undefined, recent: number) {
    const live = await subscriptionCache.of(keyId);
    const weight = ({ id }: Subscription): number =>
      id === named ? Infinity : (all.subs.get(id)?.[tally.MATCHED] ?? 0) + (all.subs.get(id)?.[tally.ATTEMPTED] ?? 0);
    const told = live.length <= MOST_GLANCES ? live : live.toSorted((a, b) => weight(b) - weight(a));
    const share = Math.min(recent, Math.max(1, Math.floor(RECENT_READ / Math.min(told.length, MOST_GLANCES))));
    const subscriptions: SubscriptionStats[] = [];
    for (let i = 0; i < Math.min(told.length, MOST_GLANCES); i += GLANCES_AT_ONCE) {
      const some = told.slice(i, Math.min(i + GLANCES_AT_ONCE, MOST_GLANCES));
      subscriptions.push(...(await Promise.all(some.map((one) => glance(one, all, share)))));
    }
    subscriptions.sort((a, b) => a.subscription.createdAt - b.subscription.createdAt);
    return { subscriptions, left: live.length - subscriptions.length };
  }

  async function glance(subscription: Subscription, all: StatsBucket, recent: number): Promise<SubscriptionStats> {
    const { id, keyId } = subscription;
    const limit = Math.max(1, recent);
    const newer = await storage.range(DELIVERY.under({ subscriptionId: id }), { reverse: true, limit });
    const [newest] = newer;
    const last = newest && lastOf(subscription, newest);
    const backlog = await collector.pending(keyId, id);
    const told = { last, ...(recent > 0 && { recent: answersOf(newer, recent) }) };
    return {
      subscription,
      ...sums(all.subs.get(id), all.filtered.get(id)),
      backlog,
      health: health.state(id),
      ...told,
    };
  }

  return {
    async ofKey(keyId, range, subscriptionId, recent = 0) {
      const { first, buckets } = await read(keyId, range);
      const all = tally.newBucket();
      for (const bucket of buckets.values()) tally.addBucket(all, bucket);
      return {
        ...chart(range, first, buckets, subscriptionId),
        ...(await glances(keyId, all, subscriptionId, recent)),
      };
    },
    async sumsOf(keyId, range) {
      const { buckets } = await read(keyId, range);
      const all = tally.newBucket();
      for (const bucket of buckets.values()) tally.addBucket(all, summed(bucket, undefined));
      return sumsIn(all);
    },
    async ofRelay(range) {
      const { first, buckets } = await read(WHOLE_RELAY, range);
      return chart(range, first, buckets, undefined);
    },
  };
}

/** Of a damaged record only the place is known. */
function lastOf({ id, keyId }: Subscription, { key, value }: Entry): Delivery {
  return readRecord(value, readEvent(keyId, ordinalOf(key), undefined).event, id);
}

function answersOf(entries: readonly Entry[], most: number): readonly (number | AttemptError)[] {
  const attempts = entries.flatMap(({ key, value }) => unlessDamaged(DELIVERY.read(value, key))?.attempts ?? []);
  const newest = attempts.toSorted((a, b) => a.startedAt - b.startedAt).slice(-most);
  return newest.flatMap(({ statusCode, error }) => statusCode ?? error ?? []);
}

function sums(counts: Counts | undefined, filtered: number | undefined): Sums {
  const [accepted = 0, delivered = 0, failed = 0, attempts = 0] = counts ?? [];
  const latencies = tally.latenciesOf(counts ?? []);
  const [p50Ms = null, p99Ms = null] = [tally.quantileMs(latencies, 0.5), tally.quantileMs(latencies, 0.99)];
  return { accepted, filtered: filtered ?? 0, delivered, failed, attempts, p50Ms, p99Ms };
}

/** Sums one bucket over its subscriptions, or reads one of them. */
function summed(bucket: StatsBucket | undefined, subscriptionId: string | undefined): StatsBucket {
  const one = tally.newBucket();
  const counts = tally.countsOf(one, EVERY);
  if (bucket === undefined) return one;
  for (const [id, each] of bucket.subs) if ((subscriptionId ?? id) === id) tally.addCounts(counts, each);
  for (const [id, count] of bucket.filtered) if ((subscriptionId ?? id) === id) tally.countFiltered(one, EVERY, count);
  one.accepted = subscriptionId === undefined ? bucket.accepted : (counts[tally.MATCHED] as number);
  return one;
}

const sumsIn = ({ subs, filtered, accepted }: StatsBucket): Sums => ({
  ...sums(subs.get(EVERY), filtered.get(EVERY)),
  accepted,
});

function chart(range: StatsRange, first: number, buckets: Buckets, subscriptionId: string | undefined): Chart {
  const { stepMs, kept } = GRAINS[GRAIN_OF[range]];
  const places = Array.from({ length: kept }, (_, i) => buckets.get(first + i * stepMs));
  const total = tally.newBucket();
  const each = places.map((bucket) => {
    const one = summed(bucket, subscriptionId);
    tally.addBucket(total, one);
    return sumsIn(one);
  });
  const names = Object.keys(sumsIn(total)) as (keyof Sums)[];
  const columns = Object.fromEntries(names.map((name) => [name, each.map((one) => one[name])]));
  const refused = (of: (column: readonly number[]) => unknown) =>
    Object.fromEntries(tally.REFUSALS.map((code, n) => [code, of(places.map((bucket) => bucket?.refused[n] ?? 0))]));
  const backlog = backlogs(places, subscriptionId);
  return {
    ...{ range, stepMs, from: first },
    series: { ...columns, backlog, refused: refused((column) => column) } as Chart["series"],
    totals: {
      ...sumsIn(total),
      refused: refused((column) => column.reduce((sum, one) => sum + one, 0)) as Chart["totals"]["refused"],
    },
  };
}

/** Nothing is counted while nothing happens: the last reading still holds. */
function backlogs(places: readonly (StatsBucket | undefined)[], subscriptionId: string | undefined): Column {
  let last = 0;
  return places.map((bucket) => {
    if (bucket === undefined || bucket.backlog.size === 0) return last;
    const { backlog } = bucket;
    const readings = subscriptionId === undefined ? [...backlog.values()] : [backlog.get(subscriptionId) ?? 0];
    return (last = readings.reduce((sum, one) => sum + one, 0));
  });
}
