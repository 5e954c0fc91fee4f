/** Stores the rows of the statistics, each grain for its time, and writes again what could not be written. */
import { setNewest } from "../lib/bounded-map.ts";
import { createCautiousNow } from "../lib/cautious-now.ts";
import { type Grain, STATS } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { everyEntry, everyPage } from "../records/every-entry.ts";
import { addBucket, decodeBucket, newBucket, type StatsBucket } from "./bucket.ts";

/** Length of a bucket, and how many are kept. */
export const GRAINS: Readonly<Record<Grain, { readonly stepMs: number; readonly kept: number }>> = {
  "1m": { stepMs: 60_000, kept: 60 },
  "10m": { stepMs: 600_000, kept: 144 },
  "1h": { stepMs: 3_600_000, kept: 168 },
};
export const ALL_GRAINS = ["1m", "10m", "1h"] as const;

const PAGE = 500;
/** Most rows that wait for the next write after a failure. */
const MOST_UNWRITTEN = 10_000;

export const bucketStart = (grain: Grain, at: number): number =>
  Math.floor(at / GRAINS[grain].stepMs) * GRAINS[grain].stepMs;

export function addAt(buckets: Map<number, StatsBucket>, at: number, bucket: StatsBucket): void {
  const found = buckets.get(at) ?? newBucket();
  addBucket(found, bucket);
  buckets.set(at, found);
}

export interface Rollups {
  put(key: string, value: string): void;
  /** Writes all rows that were put. What cannot be written stays for the next time. @throws StorageError */
  write(): Promise<void>;
  /** Adds up the rows of a key from `first` on, by the time at which their buckets begin. @throws StorageError */
  read(
    keyId: string,
    grain: Grain,
    first: number,
    skip: (row: { readonly at: number; readonly node: string }) => boolean,
  ): Promise<Map<number, StatsBucket>>;
  /**
   * Deletes rows that are older than any query, of all nodes.
   * @param everything reads all of `prefix`; otherwise it ends at the first page that has something younger
   */
  trim(prefix: string, everything?: boolean): Promise<void>;
}

export function createRollups(deps: {
  readonly storage: Pick<Storage, "range" | "commit">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
}): Rollups {
  const { storage, clock } = deps;
  const unwritten = new Map<string, string>();
  /** A wall clock that is set forwards for a while must not make everything old. */
  const cautiousNow = createCautiousNow(clock);
  return {
    put(key, value) {
      setNewest(unwritten, key, value, MOST_UNWRITTEN);
    },
    async write() {
      while (unwritten.size > 0) {
        const rows = [...unwritten].slice(0, PAGE);
        await storage.commit(rows.map(([key, value]) => ({ op: "put", key, value })));
        // A row that was counted on meanwhile has a newer text, and must still be written.
        for (const [key, value] of rows) if (unwritten.get(key) === value) unwritten.delete(key);
      }
    },
    async read(keyId, grain, first, skip) {
      const buckets = new Map<number, StatsBucket>();
      const after = STATS.key({ keyId, grain, at: first, node: "" });
      for await (const { key, value } of everyEntry(storage, STATS.under({ keyId, grain }), { after })) {
        const row = STATS.id(key);
        if (!skip(row)) addAt(buckets, row.at, decodeBucket(value));
      }
      return buckets;
    },
    async trim(prefix, everything = false) {
      const now = cautiousNow();
      for await (const page of everyPage(storage, prefix)) {
        const old: Change[] = page.filter(({ key }) => isOver(key, now)).map(({ key }) => ({ op: "delete", key }));
        if (old.length > 0) await storage.commit(old);
        // Under one key and grain the oldest come first.
        if (!everything && old.length < page.length) return;
      }
    },
  };
}

function isOver(key: string, now: number): boolean {
  const row = STATS.id(key);
  return (
    Object.hasOwn(GRAINS, row.grain) &&
    row.at < bucketStart(row.grain, now) - GRAINS[row.grain].kept * GRAINS[row.grain].stepMs
  );
}
