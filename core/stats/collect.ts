/**
 * Collects the relay's own statistics in bounded space: counted in memory, written every ten seconds, kept for an hour
 * by the minute, a day by ten minutes, a week by the hour. A crash loses what was counted since the last write.
 */
import { randomId } from "../model/ids.ts";
import { DUE, type Grain, STATS, WHOLE_RELAY } from "../model/schema.ts";
import type { RelayEvent } from "../model/event.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import { ALL_GRAINS, createRollups, GRAINS, bucketStart } from "./rollups.ts";
import { latencyCell } from "./latency-histogram.ts";
import { newLive, type Live } from "./live.ts";
import * as tally from "./bucket.ts";
import type { CountedRefusal, StatsBucket } from "./bucket.ts";

interface StatsDeps {
  readonly storage: Pick<Storage, "range" | "commit"> & { readonly queue: Pick<Storage["queue"], "depth"> };
  readonly clock: Clock;
  readonly log: Log;
  /** Counts deliveries that wait for their turn: of a subscription, or of the whole relay. @default none */
  readonly waiting?: (keyId?: string, subscriptionId?: string) => Promise<number>;
}

/** Buckets by the time at which they begin. */
export type Buckets = ReadonlyMap<number, StatsBucket>;

export interface StatsCollector {
  /** Called for each event, right after its commit: less than a microsecond. */
  accepted(event: Pick<RelayEvent, "keyId" | "subscriptionIds">): void;
  /** The same for the subscriptions of a wide event, a page at a time. */
  matched(keyId: string, subscriptionIds: readonly string[]): void;
  /** Called for deliveries that filters left out, and for those that failed without an attempt, right after the commit. */
  filtered(keyId: string, subscriptionIds: readonly string[]): void;
  failed(keyId: string, subscriptionIds: readonly string[]): void;
  /** Called for each attempt, right after its commit. */
  readonly attempted: AttemptObserver;
  /** Counts a 429 answer; on a key, when the caller owned it. */
  readonly refused: (code: CountedRefusal, keyId: string | undefined) => void;
  start(): void;
  stop(): Promise<void>;
  /** Returns what all nodes counted on a key from `first` on, this node up to now. */
  read(keyId: string, grain: Grain, first: number): Promise<Buckets>;
  /** Returns the pending deliveries of a subscription; `MOST_PENDING` stands for that or more. */
  pending(keyId: string, subscriptionId: string): Promise<number>;
  /** Writes now, which `start` does by itself. */
  flush(): Promise<void>;
}

/** Stands for all subscriptions in the statistics of the whole relay. */
export const EVERY = "all";

const FLUSH_MS = 10_000;
const SWEEP_MS = 86_400_000;
/** Keys held in memory; what happens on others meanwhile is counted for the whole relay alone. */
const MOST_KEYS = 20_000;
const IDLE_MS = 3_600_000;
/** How far pending deliveries of one subscription are counted, and for how many subscriptions a minute. */
const MOST_PENDING = 1_000;
const MOST_LOOKS = 1_000;
/** Subscriptions counted in one turn of the event loop: a storage that answers at once takes 0.3 ms each. */
const COUNTED_AT_ONCE = 20;
const SLICE = 50;

/** Yields all of them, and gives other work a turn after some. */
async function* inTurns(ids: Iterable<string>): AsyncGenerator<string> {
  let yielded = 0;
  for (const id of ids) {
    yield id;
    if (++yielded % COUNTED_AT_ONCE === 0) await new Promise((turned) => void setImmediate(turned));
  }
}

export function createStatsCollector(deps: StatsDeps): StatsCollector {
  const { storage, clock, log } = deps;
  // Each process writes rows of its own, so it need not know what others, or its earlier runs, have counted.
  let node = newName();
  const live = new Map<string, Live>();
  const whole = newLive(clock.now());
  /** What was counted since the last write on keys for which there is no room. */
  let others = newLive(0);
  const rows = createRollups(deps);
  let flushedAt = clock.now();
  let settledAt = flushedAt;
  /** By the monotonic clock. The first write sweeps, because a relay that is restarted each night never runs for a day. */
  let sweptAt = Number.NEGATIVE_INFINITY;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;
  let flushing: Promise<void> = Promise.resolve();

  /** Returns what counts a key that is not in memory. */
  function made(keyId: string): Live {
    const one = live.size < MOST_KEYS ? newLive(flushedAt) : others;
    if (one !== others) live.set(keyId, one);
    return one;
  }

  const of = (keyId: string): StatsBucket => (live.get(keyId) ?? made(keyId)).delta;

  /** Moves what was counted since the last call to the buckets of that time. @returns whether an hour began for it */
  function settle(keyId: string, one: Live, at: number): boolean {
    if (tally.isEmpty(one.delta)) return false;
    const { delta } = one;
    const hour = one.current.get("1h")?.at;
    one.delta = tally.newBucket();
    one.activeAt = at;
    if (one !== whole) tally.addSums(whole.delta, delta, EVERY);
    for (const grain of ALL_GRAINS) {
      const from = bucketStart(grain, at);
      let bucket = one.current.get(grain);
      if (bucket?.at !== from) one.current.set(grain, (bucket = { at: from, tally: tally.newBucket() }));
      tally.addBucket(bucket.tally, delta);
      rows.put(STATS.key({ keyId, grain, at: from, node }), tally.encodeBucket(bucket.tally));
    }
    return one.current.get("1h")?.at !== hour;
  }

  function matched(keyId: string, subscriptionIds: readonly string[]): void {
    for (const id of subscriptionIds) tally.bump(tally.countsOf(of(keyId), id), tally.MATCHED);
  }

  async function pending(keyId: string, id: string): Promise<number> {
    const due = (await storage.range(DUE.under({ subscriptionId: id }), { limit: MOST_PENDING })).length;
    return Math.min(MOST_PENDING, due + ((await deps.waiting?.(keyId, id)) ?? 0));
  }

  /** Counts pending deliveries at the end of a minute. Keys that were skipped come first in the next minute. */
  async function countPending(at: number): Promise<void> {
    let looks = 0;
    for (const [keyId, one] of [...live]) {
      const minute = one.current.get("1m");
      const active = minute?.at === bucketStart("1m", at) ? minute.tally.subs.keys() : [];
      const subs = new Set([...active, ...one.delta.subs.keys(), ...one.waiting]);
      subs.delete(tally.OTHERS);
      if (subs.size === 0) continue;
      // A key that has more by itself waits until it is the first, and has that minute alone.
      if (looks > 0 && looks + subs.size > MOST_LOOKS) break;
      looks += subs.size;
      live.delete(keyId);
      live.set(keyId, one);
      for await (const id of inTurns(subs)) {
        const count = await pending(keyId, id);
        tally.readCounts(one.delta, id, count);
        if (count > 0 && one.waiting.size < tally.MOST_SUBSCRIPTIONS) one.waiting.add(id);
        else one.waiting.delete(id);
      }
    }
    tally.readCounts(whole.delta, EVERY, (await storage.queue.depth()).waiting + ((await deps.waiting?.()) ?? 0));
  }

  /** Takes a new name when the clock is set back: what was counted of the time that comes again has its rows already. */
  function renameIfBack(at: number): void {
    if (bucketStart("1m", at) < bucketStart("1m", settledAt)) {
      node = newName();
      for (const one of [whole, ...live.values()]) one.current.clear();
    }
    settledAt = at;
  }

  async function flushNow(): Promise<void> {
    const now = clock.now();
    const at = Math.min(flushedAt, now);
    flushedAt = now;
    renameIfBack(at);
    try {
      if (bucketStart("1m", at) !== bucketStart("1m", now)) await countPending(at);
      let done = 0;
      const fresh: string[] = [];
      for (const [keyId, one] of [...live]) {
        if (settle(keyId, one, at)) fresh.push(keyId);
        if (now - one.activeAt > IDLE_MS && one.waiting.size === 0) live.delete(keyId);
        // Many keys make many rows: give other work a turn in between.
        if (++done % SLICE === 0) await rows.write();
      }
      tally.addSums(whole.delta, others.delta, EVERY);
      others = newLive(0);
      if (settle(WHOLE_RELAY, whole, at)) fresh.push(WHOLE_RELAY);
      await rows.write();
      for (const keyId of fresh) for (const grain of ALL_GRAINS) await rows.trim(STATS.under({ keyId, grain }));
      if (clock.monotonic() - sweptAt >= SWEEP_MS) {
        sweptAt = clock.monotonic();
        await rows.trim(STATS.start, true);
      }
    } catch (error) {
      log.warn("statistics could not be stored; they are kept for the next time", { error: String(error) });
    }
  }

  const flush = (): Promise<void> => (flushing = flushing.then(flushNow));

  async function run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const now = clock.now();
      const until = Math.min(now + FLUSH_MS, bucketStart("1m", now) + GRAINS["1m"].stepMs);
      try {
        await clock.sleep(until, signal);
      } catch {
        return;
      }
      await flush();
    }
  }

  return {
    pending,
    flush,
    accepted({ keyId, subscriptionIds }) {
      const { delta } = live.get(keyId) ?? made(keyId);
      delta.accepted++;
      for (const id of subscriptionIds) (tally.countsOf(delta, id)[tally.MATCHED] as number)++;
    },
    matched,
    filtered(keyId, subscriptionIds) {
      const delta = of(keyId);
      for (const id of subscriptionIds) tally.countFiltered(delta, id);
    },
    failed(keyId, subscriptionIds) {
      for (const id of subscriptionIds) tally.bump(tally.countsOf(of(keyId), id), tally.FAILED);
    },
    attempted(sub, _delivery, attempt, outcome) {
      const counts = tally.countsOf((live.get(sub.keyId) ?? made(sub.keyId)).delta, sub.id);
      (counts[tally.ATTEMPTED] as number)++;
      tally.addLatency(counts, latencyCell(attempt.durationMs));
      if (outcome.kind !== "retry") (counts[outcome.kind === "delivered" ? tally.DELIVERED : tally.FAILED] as number)++;
    },
    refused(code, keyId) {
      const i = tally.REFUSALS.indexOf(code);
      if (i < 0) return;
      tally.countRefusal(whole.delta.refused, i);
      if (keyId !== undefined) tally.countRefusal(of(keyId).refused, i);
    },
    start() {
      if (running !== undefined) return;
      flushedAt = clock.now();
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      await running;
      await flush();
    },
    async read(keyId, grain, first) {
      const one = keyId === WHOLE_RELAY ? whole : live.get(keyId);
      const current = one?.current.get(grain);
      // This node's current bucket is newer in memory than in its row.
      const buckets = await rows.read(keyId, grain, first, (row) => row.node === node && row.at === current?.at);
      const add = (start: number, bucket: StatsBucket): void => {
        const found = buckets.get(start) ?? tally.newBucket();
        tally.addBucket(found, bucket);
        buckets.set(start, found);
      };
      if (current !== undefined && current.at >= first) add(current.at, current.tally);
      if (one !== undefined && !tally.isEmpty(one.delta)) add(bucketStart(grain, flushedAt), one.delta);
      return buckets;
    },
  };
}

const newName = (): string => randomId("n").slice(2, 12);
