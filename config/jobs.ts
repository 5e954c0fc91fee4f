/** Jobs of the config: what the relay does by the clock (cron expressions, UTC). */
import type { Job } from "../core/ports/plan.ts";

type ReplayJob = Extract<Job, { name: "replay" }>;
type RetentionJob = Extract<Job, { name: "retention" }>;
type Options<J extends Job> = Partial<Omit<J, "kind" | "name">>;

/**
 * Replays deliveries that failed because their attempts were used up, of active subscriptions.
 * @param options.schedule when it runs @default "*\/15 * * * *"
 * @param options.olderThanMs failed at least this long ago @default 600000 (10 min)
 * @param options.maxAgeMs of events accepted within this time @default 259200000 (3 days)
 * @param options.maxReplays replayed fewer than this many times @default 24
 * @param options.limit at most so many a run @default 1000
 * @param options.perSecond pace @default 50
 */
export function replay(options: Options<ReplayJob> = {}): ReplayJob {
  return {
    kind: "job",
    name: "replay",
    schedule: "*/15 * * * *",
    olderThanMs: 600_000,
    maxAgeMs: 259_200_000,
    maxReplays: 24,
    limit: 1_000,
    perSecond: 50,
    ...given(options),
  };
}

/**
 * Removes old events with all that belongs to them. What is pending is never removed.
 * @param options.schedule when it runs @default "0 3 * * *"
 * @param options.deliveredAfterMs delivered, cancelled or wanted by nobody this long ago; `undefined`, when written out: never
 *   @default 2592000000 (30 days)
 * @param options.failedAfterMs failed this long ago @default undefined: never
 * @param options.keys API key → its own `deliveredAfterMs` and `failedAfterMs`; `false`: never. What is left out is as its type or the
 *   job says @default undefined: none
 * @param options.types pattern of event names → the same for those that match; the first match counts, and what their key says
 *   goes first @default undefined: none
 */
export function retention(options: Options<RetentionJob> = {}): RetentionJob {
  return { kind: "job", name: "retention", schedule: "0 3 * * *", deliveredAfterMs: 2_592_000_000, ...options };
}

/** Left-out and undefined options both mean the default. */
function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as T;
}
