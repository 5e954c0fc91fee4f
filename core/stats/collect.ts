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
import { addAt, ALL_GRAINS, createRollups, GRAINS, bucketStart, type Rollups } from "./rollups.ts";
import * as tally from "./bucket.ts";
import type { CountedRefusal, StatsBucket } from "./bucket.ts";

interface StatsDeps {
  readonly storage: Pick<Storage, "range" | "commit"> & { readonly queue: Pick<Storage["queue"], "depth"> };
  readonly clock: Clock;
  readonly log: Log;
  /** Counts deliveries that wait for their turn: of a subscription, or of the whole relay. @default none */
  readonly waiting?: (keyId?: string, subscriptionId?: string) => Promise<number>;
}

export type Buckets = ReadonlyMap<number, StatsBucket>;

/** Stands for all subscriptions in the statistics of the whole relay. */
export const EVERY = "all";

const FLUSH_MS = 10_000;
const SWEEP_MS = 86_400_000;
/** Keys held in memory; what happens on others meanwhile is counted for the whole relay alone. */
const MOST_KEYS = 20_000;
const IDLE_MS = 3_600_000;
/** How far pending deliveries of one subscription are counted, and for how many subscriptions a minute. */
const MOST_PENDING = 1_000;
const MOST_COUNTED = 1_000;
/** Subscriptions counted in one turn of the event loop: a storage that answers at once takes 0.3 ms each. */
const COUNTED_AT_ONCE = 20;
const SLICE = 50;

/** Counts on a key, or on the whole relay, in the memory of one process. */
class Live {
  delta = tally.newBucket();
  /** The newest bucket of each grain, with all that its row says. */
  readonly current = new Map<Grain, { readonly at: number; readonly tally: StatsBucket }>();
  /** Subscriptions that had pending deliveries at the last reading. */
  readonly waiting = new Set<string>();
  activeAt: number;

  constructor(now: number) {
    this.activeAt = now;
  }
}

export class StatsCollector {
  readonly #deps: StatsDeps;
  /** Each process writes rows of its own, so it need not know what others, or its earlier runs, have counted. */
  #node = newName();
  readonly #live = new Map<string, Live>();
  readonly #whole: Live;
  /** Counted since the last write on keys for which there is no room. */
  #others = new Live(0);
  readonly #rows: Rollups;
  #flushedAt: number;
  #settledAt: number;
  /** By the monotonic clock. The first write sweeps, because a relay that is restarted each night never runs for a day. */
  #sweptAt = Number.NEGATIVE_INFINITY;
  #stopping: AbortController | undefined;
  #running: Promise<void> | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(deps: StatsDeps) {
    this.#deps = deps;
    this.#flushedAt = this.#settledAt = deps.clock.now();
    this.#whole = new Live(this.#flushedAt);
    this.#rows = createRollups(deps);
  }

  /** Called for each event, right after its commit: less than a microsecond. */
  accepted({ keyId, subscriptionIds }: Pick<RelayEvent, "keyId" | "subscriptionIds">): void {
    const { delta } = this.#live.get(keyId) ?? this.#made(keyId);
    delta.accepted++;
    for (const id of subscriptionIds) (tally.countsOf(delta, id)[tally.MATCHED] as number)++;
  }

  /** The same for the subscriptions of a wide event, a page at a time. */
  readonly matched = (keyId: string, subscriptionIds: readonly string[]): void => {
    for (const id of subscriptionIds) tally.bump(tally.countsOf(this.#of(keyId), id), tally.MATCHED);
  };

  /** Called for deliveries that filters left out, right after the commit. */
  readonly filtered = (keyId: string, subscriptionIds: readonly string[]): void => {
    const delta = this.#of(keyId);
    for (const id of subscriptionIds) tally.countFiltered(delta, id);
  };

  /** Called for deliveries that failed without an attempt, right after the commit. */
  readonly failed = (keyId: string, subscriptionIds: readonly string[]): void => {
    for (const id of subscriptionIds) tally.bump(tally.countsOf(this.#of(keyId), id), tally.FAILED);
  };

  /** Called for each attempt, right after its commit. */
  readonly attempted: AttemptObserver = (sub, _delivery, attempt, outcome) => {
    const counts = tally.countsOf((this.#live.get(sub.keyId) ?? this.#made(sub.keyId)).delta, sub.id);
    (counts[tally.ATTEMPTED] as number)++;
    tally.addLatency(counts, tally.latencyCell(attempt.durationMs));
    if (outcome.kind !== "retry") (counts[outcome.kind === "delivered" ? tally.DELIVERED : tally.FAILED] as number)++;
  };

  /** Counts a 429 answer; on a key, when the caller owned it. */
  refused(code: CountedRefusal, keyId: string | undefined): void {
    const i = tally.REFUSALS.indexOf(code);
    if (i < 0) return;
    tally.countRefusal(this.#whole.delta.refused, i);
    if (keyId !== undefined) tally.countRefusal(this.#of(keyId).refused, i);
  }

  start(): void {
    if (this.#running !== undefined) return;
    this.#flushedAt = this.#deps.clock.now();
    this.#stopping = new AbortController();
    this.#running = this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping?.abort();
    await this.#running;
    await this.flush();
  }

  /** Returns what all nodes counted on a key from `first` on, this node up to now. */
  async read(keyId: string, grain: Grain, first: number): Promise<Buckets> {
    const one = keyId === WHOLE_RELAY ? this.#whole : this.#live.get(keyId);
    const current = one?.current.get(grain);
    // This node's current bucket is newer in memory than in its row.
    const isOwn = (row: { readonly at: number; readonly node: string }): boolean =>
      row.node === this.#node && row.at === current?.at;
    const buckets = await this.#rows.read(keyId, grain, first, isOwn);
    if (current !== undefined && current.at >= first) addAt(buckets, current.at, current.tally);
    if (one !== undefined && !tally.isEmpty(one.delta)) addAt(buckets, bucketStart(grain, this.#flushedAt), one.delta);
    return buckets;
  }

  /** Returns the pending deliveries of a subscription; `MOST_PENDING` stands for that or more. */
  async pending(keyId: string, id: string): Promise<number> {
    const { storage, waiting } = this.#deps;
    const due = (await storage.range(DUE.under({ subscriptionId: id }), { limit: MOST_PENDING })).length;
    return Math.min(MOST_PENDING, due + ((await waiting?.(keyId, id)) ?? 0));
  }

  /** Writes now, which `start` does by itself. */
  flush(): Promise<void> {
    return (this.#flushing = this.#flushing.then(() => this.#flushNow()));
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    for (;;) {
      const now = clock.now();
      const until = Math.min(now + FLUSH_MS, bucketStart("1m", now) + GRAINS["1m"].stepMs);
      try {
        await clock.sleep(until, signal);
      } catch {
        return;
      }
      await this.flush();
    }
  }

  async #flushNow(): Promise<void> {
    const now = this.#deps.clock.now();
    const at = Math.min(this.#flushedAt, now);
    this.#flushedAt = now;
    this.#renameIfBack(at);
    try {
      if (bucketStart("1m", at) !== bucketStart("1m", now)) await this.#countPending(at);
      const fresh = await this.#writeAll(at, now);
      for (const keyId of fresh) for (const grain of ALL_GRAINS) await this.#rows.trim(STATS.under({ keyId, grain }));
      await this.#sweep();
    } catch (error) {
      this.#deps.log.warn("statistics could not be stored; they are kept for the next time", { error: String(error) });
    }
  }

  /** Takes a new name when the clock is set back: what was counted of the time that comes again has its rows already. */
  #renameIfBack(at: number): void {
    if (bucketStart("1m", at) < bucketStart("1m", this.#settledAt)) {
      this.#node = newName();
      for (const one of [this.#whole, ...this.#live.values()]) one.current.clear();
    }
    this.#settledAt = at;
  }

  /** Writes what was counted until then. @returns the keys for which an hour began */
  async #writeAll(at: number, now: number): Promise<readonly string[]> {
    let done = 0;
    const fresh: string[] = [];
    for (const [keyId, one] of [...this.#live]) {
      if (this.#settle(keyId, one, at)) fresh.push(keyId);
      if (now - one.activeAt > IDLE_MS && one.waiting.size === 0) this.#live.delete(keyId);
      // Many keys make many rows: give other work a turn in between.
      if (++done % SLICE === 0) await this.#rows.write();
    }
    tally.addSums(this.#whole.delta, this.#others.delta, EVERY);
    this.#others = new Live(0);
    if (this.#settle(WHOLE_RELAY, this.#whole, at)) fresh.push(WHOLE_RELAY);
    await this.#rows.write();
    return fresh;
  }

  /** Moves what was counted since the last call to the buckets of that time. @returns true when an hour began for it */
  #settle(keyId: string, one: Live, at: number): boolean {
    if (tally.isEmpty(one.delta)) return false;
    const { delta } = one;
    const hour = one.current.get("1h")?.at;
    one.delta = tally.newBucket();
    one.activeAt = at;
    if (one !== this.#whole) tally.addSums(this.#whole.delta, delta, EVERY);
    for (const grain of ALL_GRAINS) {
      const from = bucketStart(grain, at);
      let bucket = one.current.get(grain);
      if (bucket?.at !== from) one.current.set(grain, (bucket = { at: from, tally: tally.newBucket() }));
      tally.addBucket(bucket.tally, delta);
      this.#rows.put(STATS.key({ keyId, grain, at: from, node: this.#node }), tally.encodeBucket(bucket.tally));
    }
    return one.current.get("1h")?.at !== hour;
  }

  /** Counts pending deliveries at the end of a minute. Keys that were skipped come first in the next minute. */
  async #countPending(at: number): Promise<void> {
    const { storage, waiting } = this.#deps;
    let counted = 0;
    for (const [keyId, one] of [...this.#live]) {
      const minute = one.current.get("1m");
      const active = minute?.at === bucketStart("1m", at) ? minute.tally.subs.keys() : [];
      const subs = new Set([...active, ...one.delta.subs.keys(), ...one.waiting]);
      subs.delete(tally.OTHERS);
      if (subs.size === 0) continue;
      // A key that has more by itself waits until it is the first, and has that minute alone.
      if (counted > 0 && counted + subs.size > MOST_COUNTED) break;
      counted += subs.size;
      this.#live.delete(keyId);
      this.#live.set(keyId, one);
      for await (const id of inTurns(subs)) {
        const count = await this.pending(keyId, id);
        tally.readCounts(one.delta, id, count);
        if (count > 0 && one.waiting.size < tally.MOST_SUBSCRIPTIONS) one.waiting.add(id);
        else one.waiting.delete(id);
      }
    }
    tally.readCounts(this.#whole.delta, EVERY, (await storage.queue.depth()).waiting + ((await waiting?.()) ?? 0));
  }

  async #sweep(): Promise<void> {
    const now = this.#deps.clock.monotonic();
    if (now - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = now;
    await this.#rows.trim(STATS.start, true);
  }

  #of(keyId: string): StatsBucket {
    return (this.#live.get(keyId) ?? this.#made(keyId)).delta;
  }

  /** Returns what counts a key that is not in memory. */
  #made(keyId: string): Live {
    if (this.#live.size >= MOST_KEYS) return this.#others;
    const one = new Live(this.#flushedAt);
    this.#live.set(keyId, one);
    return one;
  }
}

/** Yields all of them, and gives other work a turn after some. */
async function* inTurns(ids: Iterable<string>): AsyncGenerator<string> {
  let yielded = 0;
  for (const id of ids) {
    yield id;
    if (++yielded % COUNTED_AT_ONCE === 0) await new Promise((turned) => void setImmediate(turned));
  }
}

const newName = (): string => randomId("n").slice(2, 12);
