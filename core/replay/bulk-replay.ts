/** Replays the failed deliveries of one subscription, in order of acceptance, many in one commit. */
import type { Delivery, Failed } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { ordinalFloor, ordinalTime } from "../model/ids.ts";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import { DELIVERY, FAILED, ordinalOf } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { readTexts } from "../records/damage.ts";
import { reopening } from "../records/fanout-row.ts";
import type { Endings } from "../records/endings.ts";
import { commitReplays, replayedEventId, withOrder, type EventPlace, type Replayed } from "./current-delivery.ts";

export interface ReplayFailedOptions {
  readonly subscription: Subscription;
  /** Epoch ms of the event's acceptance: from (inclusive) … to (exclusive). */
  readonly since?: number;
  readonly until?: number;
  /** Most deliveries that are replayed, or counted. */
  readonly limit: number;
  /** Due times are `1/perSecond` apart. */
  readonly perSecond: number;
  /** In how many ms the first one is due. A negative one makes up for time that has passed. @default 0 */
  readonly startsInMs?: number;
  /** Counts only. */
  readonly dryRun?: boolean;
  /** Selects among the failed ones. @default all */
  readonly only?: (failed: Failed) => boolean;
  /** Continues after the delivery of this ordinal. @default with the oldest */
  readonly after?: string;
  /** Returns true when a delivery can never qualify later either. @default none */
  readonly outdated?: (failed: Failed) => boolean;
}

export interface BulkReplayed {
  /** Those that qualify, also ones that turn out to be impossible to replay. */
  readonly matched: number;
  readonly replayed: number;
  /** True when `limit` was reached before the end. */
  readonly more: boolean;
  /** The ordinal up to which all were outdated: the next call can skip these. */
  readonly outdatedTo?: string;
}

const PAGE = 200;

/** Returns a delivery as a replay leaves it: pending again, in its next cycle. */
export const replayedDelivery = (delivery: Delivery, sub: Subscription, dueAt: number, now: number): Delivery => ({
  ...delivery,
  status: "pending",
  reason: undefined,
  cycle: delivery.cycle + 1,
  generation: sub.generation,
  attempts: [],
  nextAttemptAt: dueAt,
  updatedAt: now,
});

interface BulkDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly endings: Pick<Endings, "finish">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Moves one delivery, whatever changed meanwhile; returns 0 when it cannot be moved. */
  readonly move: (sub: Subscription, at: EventPlace, dueFrom: (now: number) => number) => Promise<number>;
}

export async function replayFailed(deps: BulkDeps, options: ReplayFailedOptions): Promise<BulkReplayed> {
  const { storage, endings, clock } = deps;
  const { subscription, since = 0, until = Number.MAX_SAFE_INTEGER, limit, perSecond } = options;
  const { dryRun = false, startsInMs = 0, only, outdated } = options;
  // Includes what a list shows as failed since the subscription was disabled.
  await endings.finish(subscription.keyId, subscription.id);
  // Measured by the monotonic clock, so that setting the wall clock moves none of them.
  const began = clock.monotonic();
  const dueOfNth = (n: number, now: number): number =>
    Math.round(now + startsInMs + (n * 1_000) / perSecond - (clock.monotonic() - began));
  let [matched, replayed] = [0, 0];
  const own = { subscriptionId: subscription.id };
  let outdatedTo: string | undefined;
  let leading = outdated !== undefined;
  const oldest = ordinalFloor(since);
  let after = FAILED.key({ ...own, ordinal: options.after && options.after > oldest ? options.after : oldest });
  for (;;) {
    const page: readonly Entry[] = await storage.range(FAILED.under(own), { after, limit: PAGE });
    const wanted: string[] = [];
    // One that cannot be moved takes no place of the limit: with enough of them, those behind would wait for ever.
    const room = limit - (dryRun ? matched : replayed);
    let full = false;
    for (const { key, value } of page) {
      const ordinal = ordinalOf(key);
      const failed = only && FAILED.read(value);
      leading &&= failed === DAMAGED || (failed !== undefined && outdated?.(failed) === true);
      if (leading) outdatedTo = ordinal;
      // Where not all are chosen, a damaged line is not.
      const chosen = failed === undefined || (failed !== DAMAGED && only?.(failed) === true);
      const wants = chosen && ordinalTime(ordinal) < until;
      full = wants && wanted.length === room;
      if (full) break;
      after = key;
      if (wants) wanted.push(ordinal);
    }
    matched += wanted.length;
    const from = replayed;
    if (!dryRun && wanted.length > 0)
      replayed += await moveAll(deps, subscription, wanted, (n, now) => dueOfNth(from + n, now));
    const more = full && (dryRun || replayed === limit);
    if (more || (!full && page.length < PAGE)) return { matched, replayed, more, outdatedTo };
  }
}

/** Moves a page in one commit, or one by one where something changed meanwhile. @returns how many were moved */
async function moveAll(
  { storage, clock, move }: BulkDeps,
  sub: Subscription,
  ordinals: readonly string[],
  dueOfNth: (n: number, now: number) => number,
): Promise<number> {
  const keys = ordinals.map((ordinal) => DELIVERY.key({ subscriptionId: sub.id, ordinal }));
  const texts = await readTexts(storage, keys);
  const changes: Change[] = [];
  const moved: Replayed[] = [];
  const rest: EventPlace[] = [];
  for (const [i, ordinal] of ordinals.entries()) {
    const text = texts[i];
    if (text === undefined) continue;
    const delivery = unlessDamaged(DELIVERY.read(text, keys[i]));
    const plain = delivery?.status === "failed" && delivery.reason !== "record_damaged";
    const opened = plain ? await reopening(storage, sub.keyId, ordinal) : undefined;
    if (delivery === undefined || opened === undefined) {
      const eventId = await replayedEventId(storage, sub, ordinal);
      if (eventId !== undefined) rest.push({ id: eventId, keyId: sub.keyId, ordinal });
      continue;
    }
    // One reading for both: by their difference, a queue tells a wait from a clock that was set meanwhile.
    const now = clock.now();
    const dueAt = dueOfNth(moved.length, now);
    const next = await withOrder(storage, sub, replayedDelivery(delivery, sub, dueAt, now));
    moved.push({ delivery, was: text, next, dueAt });
    for (const change of opened) changes.push(change);
  }
  let count = moved.length;
  try {
    if (count > 0) await commitReplays(storage, moved, changes);
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    count = 0;
    for (const { next } of moved) rest.push({ ...next, id: next.eventId });
  }
  for (const place of rest) count += await move(sub, place, (now) => dueOfNth(count, now));
  return count;
}
