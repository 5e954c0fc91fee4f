/** Replays failed deliveries: they become pending again in a new cycle, on the same path. */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import type { RelayEvent } from "../model/event.ts";
import { DELIVERY, EVENT } from "../model/schema.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { isLive, wants, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { reopened, reopening } from "../records/fanout-row.ts";
import { locateEvent, type Located } from "../records/find-event.ts";
import { everyRecipient, type Recipients } from "../records/recipients.ts";
import { freshDelivery } from "../records/delivery-records.ts";
import { retryOnConflict } from "../records/transaction.ts";
import {
  commitReplays,
  endCurrent,
  readCurrent,
  withOrder,
  type CurrentDelivery,
  type EventPlace,
  type Replayed,
} from "./current-delivery.ts";
import { replayFailed, replayedDelivery, type BulkReplayed, type ReplayFailedOptions } from "./bulk-replay.ts";
import { asEnded } from "../records/ended-by.ts";
import type { Endings } from "../records/endings.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";

export type { BulkReplayed } from "./bulk-replay.ts";

export interface ReplayEventOptions {
  /** Only this one, also where it was cancelled by hand. Without a delivery it gets one when its names match. */
  readonly subscriptionId?: string;
  /** Also replays what was delivered, or cancelled by hand. */
  readonly force?: boolean;
  /** Changes stored with the replay, in the same commit (an audit line). */
  readonly also?: readonly Change[];
}

export interface Replay {
  /**
   * @returns how many deliveries were moved
   * @throws Problem NOT_FOUND, or NOT_REPLAYABLE when none could be
   */
  event(keyId: string, eventId: string, options?: ReplayEventOptions): Promise<number>;
  /** Moves failed deliveries of one active subscription, in order of acceptance. */
  failed(options: ReplayFailedOptions): Promise<BulkReplayed>;
}

interface ReplayDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Recipients;
  readonly endings: Pick<Endings, "finish">;
  readonly clock: Clock;
}

export function createReplay(deps: ReplayDeps): Replay {
  const { storage, subscriptionCache, clock, endings, recipients } = deps;

  /** Moves deliveries that are due now together, or one by one where something changed meanwhile. */
  async function moveAll(subs: readonly Subscription[], at: EventPlace, options: ReplayEventOptions): Promise<number> {
    try {
      return await move(deps, subs, at, atOnce, options);
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
    }
    let moved = 0;
    for (const sub of subs) {
      const once = moved === 0 ? options : { ...options, also: [] };
      moved += await retryOnConflict(() => move(deps, [sub], at, atOnce, once));
    }
    return moved;
  }

  async function one(keyId: string, eventId: string, id: string, options: ReplayEventOptions): Promise<number> {
    const found = await located(storage, keyId, eventId);
    const { event } = found;
    const sub = await subscriptionCache.get(keyId, id);
    if (!isLive(sub)) throw noSuch("subscription");
    if (sub.status !== "active") return 0;
    if (await recipients.has(event, id)) return await move(deps, [sub], event, atOnce, options);
    return wants(sub, event.type) ? await make(deps, sub, found, options.also ?? []) : 0;
  }

  /** Replays an event for all of its subscriptions that are active, a page at a time. */
  async function all(event: RelayEvent, options: ReplayEventOptions): Promise<number> {
    let moved = 0;
    for await (const page of everyRecipient(recipients, event)) {
      const subs = await Promise.all(page.map(async ({ id }) => subscriptionCache.get(event.keyId, id)));
      const active = subs.filter((sub) => isLive(sub) && sub.status === "active") as Subscription[];
      const once = moved === 0 ? options : { ...options, also: [] };
      if (active.length > 0) moved += await moveAll(active, event, once);
    }
    return moved;
  }

  return {
    async event(keyId, eventId, options = {}) {
      const { event } = await located(storage, keyId, eventId);
      const named = options.subscriptionId;
      const moved = await (named === undefined
        ? all(event, options)
        : retryOnConflict(() => one(keyId, eventId, named, options)));
      if (moved === 0) throw await whyNot(event, options, deps);
      return moved;
    },
    failed: (options) =>
      replayFailed(
        {
          ...{ storage, endings, clock },
          move: (sub, at, dueFrom) => retryOnConflict(() => move(deps, [sub], at, dueFrom, {})),
        },
        options,
      ),
  };
}

/** Stores first that a subscription has ended a delivery: what is pending is never moved. @throws ConflictError */
async function ended(
  storage: ReplayDeps["storage"],
  current: CurrentDelivery,
  sub: Subscription,
): Promise<CurrentDelivery> {
  const over = asEnded(current.delivery, sub);
  if (over === undefined || !(await endCurrent(storage, current, over, { leased: true }))) return current;
  return { delivery: over, text: DELIVERY.write(over) };
}

/**
 * Moves those deliveries of one event that can be moved, in one commit.
 * @param dueFrom returns when they are due by the clock's reading, which is taken when the lines are written
 * @returns how many were moved
 * @throws ConflictError when something changed meanwhile
 */
async function move(
  { storage, clock }: ReplayDeps,
  subs: readonly Subscription[],
  at: EventPlace,
  dueFrom: (now: number) => number,
  options: ReplayEventOptions,
): Promise<number> {
  const read = subs.map(async (sub) => {
    const current = await readCurrent(storage, at, sub.id);
    return { sub, current: current && (await ended(storage, current, sub)) };
  });
  const found = (await Promise.all(read)).flatMap(({ sub, current }) =>
    current !== undefined && replayable(current.delivery, options) ? [{ sub, ...current }] : [],
  );
  const opened = found.length === 0 ? undefined : await reopening(storage, at.keyId, at.ordinal);
  if (opened === undefined) return 0;
  const now = clock.now();
  const dueAt = dueFrom(now);
  const replayed = found.map(async ({ sub, delivery, text }): Promise<Replayed> => {
    const next = await withOrder(storage, sub, replayedDelivery(delivery, sub, dueAt, now));
    return { delivery, was: text, next, dueAt };
  });
  await commitReplays(storage, await Promise.all(replayed), [...opened, ...(options.also ?? [])]);
  return found.length;
}

/** Makes a delivery for a subscription that had none of this event, so that a new subscriber can get old events. */
async function make(
  { storage, clock }: ReplayDeps,
  sub: Subscription,
  { event, text }: Located,
  also: readonly Change[],
): Promise<number> {
  const { id: subscriptionId, keyId, generation } = sub;
  const dueAt = clock.now();
  const line: Due = { subscriptionId, keyId, ordinal: event.ordinal, dueAt, generation, cycle: 0, attempts: 0 };
  const made: Delivery = { ...freshDelivery(line, event.id), cycle: 1, updatedAt: dueAt };
  const next = await withOrder(storage, sub, made);
  const listed: RelayEvent = { ...event, subscriptionIds: [...event.subscriptionIds, sub.id] };
  await commitReplays(
    storage,
    [{ delivery: next, was: null, next, dueAt }],
    [EVENT.put(event, listed, text), ...reopened(event), ...also],
  );
  return 1;
}

const atOnce = (now: number): number => now;

/** @throws Problem NOT_FOUND, or NOT_REPLAYABLE when it is damaged */
async function located(storage: ReplayDeps["storage"], keyId: string, eventId: string): Promise<Located> {
  const found = await locateEvent(storage, keyId, eventId);
  if (found === undefined) throw noSuch("event");
  if (found.damaged)
    throw new Problem("NOT_REPLAYABLE", "The stored record of this event is damaged, so it cannot be sent.");
  return found;
}

/** Says why a replay found nothing to send to one subscription. */
async function whyNotTo(
  event: RelayEvent,
  id: string,
  { storage, subscriptionCache, recipients }: ReplayDeps,
): Promise<string | undefined> {
  const sub = await subscriptionCache.get(event.keyId, id);
  if (!isLive(sub) || sub.status !== "active") return "The subscription is not active. Enable it, and replay then.";
  if (!(await recipients.has(event, id)))
    return wants(sub, event.type) ? undefined : "The subscription does not want events of this type.";
  switch ((await readCurrent(storage, event, id))?.delivery.status) {
    case "delivered":
      return "Its delivery is delivered. Use force to send it again.";
    case "pending":
      return "Its delivery is pending: make its next attempt now, or cancel it.";
    default:
      return undefined;
  }
}

/** Says why a replay found nothing to send, and what to do instead. */
async function whyNot(
  event: RelayEvent,
  { force = false, subscriptionId: id }: ReplayEventOptions,
  deps: ReplayDeps,
): Promise<Problem> {
  // Erased meanwhile.
  if ((await locateEvent(deps.storage, event.keyId, event.id)) === undefined) return noSuch("event");
  const why = id === undefined ? undefined : await whyNotTo(event, id, deps);
  return new Problem("NOT_REPLAYABLE", why ?? (force ? NONE_ENDED : NONE_FAILED));
}

/** Returns true when a replay moves a delivery of this status. */
export function replayable(
  delivery: Pick<Delivery, "status" | "reason">,
  { force = false, subscriptionId }: ReplayEventOptions,
): boolean {
  switch (delivery.status) {
    case "failed":
      return true;
    case "delivered":
      return force;
    case "cancelled":
      // One that somebody cancelled goes out again only where it is meant itself.
      return delivery.reason === "cancel_requested" && (force || subscriptionId !== undefined);
    case "pending":
      return false;
  }
}

const NONE_ENDED =
  "No delivery of this event to an active subscription has ended. Make the next attempt of pending ones now.";
const NONE_FAILED =
  "No delivery of this event to an active subscription has failed. Use force for delivered and cancelled ones.";
