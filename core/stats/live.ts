/** What one process counts of a key, or of the whole relay, in memory. */
import { type Grain } from "../model/schema.ts";
import { newBucket, type StatsBucket } from "./bucket.ts";

export interface Live {
  /** What was counted since the last write. */
  delta: StatsBucket;
  /** The newest bucket of each grain, with all that its row says. */
  readonly current: Map<Grain, { readonly at: number; readonly tally: StatsBucket }>;
  /** Subscriptions that had pending deliveries at the last reading. */
  readonly waiting: Set<string>;
  activeAt: number;
}

export const newLive = (now: number): Live => ({
  delta: newBucket(),
  current: new Map(),
  waiting: new Set(),
  activeAt: now,
});
