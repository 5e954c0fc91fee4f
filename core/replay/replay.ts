/** Replays failed deliveries: they become pending again in a new cycle, on the same path. */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { encodeEvent, type RelayEvent } from "../model/event.ts";
import { eventKey } from "../model/keys.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { isLive, wants, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { reopened, reopening } from "../records/fanout-row.ts";
import { locateEvent } from "../records/find-event.ts";
import { createRecipients, everyRecipient, type Recipients } from "../records/recipients.ts";
import { encodeDelivery, freshDelivery } from "../records/delivery-records.ts";
import { isSequenceConflict } from "../records/sequences.ts";
import { endCurrent, readCurrent, type CurrentDelivery } from "./current-delivery.ts";
import { commitOf, withOrder, type Replayed } from "./replay-order.ts";
import {
  createBulkReplay,
  replayedDelivery,
  type ReplayPosition,
  type BulkReplayed,
  type ReplayFailedOptions,
} from "./bulk-replay.ts";
import { createWhyNot } from "./why-not.ts";
import { asEnded } from "../records/ended-by.ts";
import type { Endings } from "../records/endings.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";

export type { BulkReplayed } from "./bulk-replay.ts";

export interface ReplayEventOptions {
  /**
   * Only this subscription, also where its delivery was cancelled by hand. If it has no delivery of the event yet, it gets
   * one when its names match.
   */
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

/** More than replays of one wide event, or of one sequence, are likely to race: each changes its row. */
const TRIES = 64;

export function createReplay(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients?: Recipients;
  readonly endings: Pick<Endings, "finish">;
  readonly clock: Clock;
}): Replay {
  const { storage, subscriptionCache, clock, endings, recipients = createRecipients(storage) } = deps;
  const whyNot = createWhyNot({ storage, subscriptionCache, recipients });

  /** Stores first that a subscription has ended a delivery: what is pending is never moved. @throws ConflictError */
  async function ended(current: CurrentDelivery, sub: Subscription): Promise<CurrentDelivery> {
    const over = current.delivery.status === "pending" ? asEnded(current.delivery, sub) : undefined;
    if (over === undefined || !(await endCurrent(storage, current, over, { leased: true }))) return current;
    return { delivery: over, text: encodeDelivery(over) };
  }

  /** Reads those of an event's deliveries that can be moved. */
  async function movable(
    subs: readonly Subscription[],
    at: ReplayPosition,
    options: ReplayEventOptions,
  ): Promise<readonly { readonly sub: Subscription; readonly current: CurrentDelivery }[]> {
    const read = subs.map(async (sub) => {
      const place = { id: at.eventId, keyId: sub.keyId, ordinal: at.ordinal };
      const current = await readCurrent(storage, place, sub.id);
      return { sub, current: current && (await ended(current, sub)) };
    });
    return (await Promise.all(read)).flatMap(({ sub, current }) =>
      current !== undefined && replayable(current.delivery, options) ? [{ sub, current }] : [],
    );
  }

  /**
   * Moves deliveries of one event in one commit, or one by one where something changed meanwhile.
   * @param dueFrom returns when they are due by the clock's reading, which is taken when the lines are written
   * @returns how many were moved
   */
  async function move(
    subs: readonly Subscription[],
    at: ReplayPosition,
    dueFrom: (now: number) => number,
    options: ReplayEventOptions,
  ): Promise<number> {
    for (let tries = subs.length > 1 ? TRIES - 1 : 0; tries < TRIES; tries++) {
      try {
        const found = await movable(subs, at, options);
        const keyId = found[0]?.sub.keyId;
        const opened = keyId === undefined ? undefined : await reopening(storage, keyId, at.ordinal);
        if (opened === undefined) return 0;
        const now = clock.now();
        const dueAt = dueFrom(now);
        const replayed = found.map(async ({ sub, current: { delivery, text } }): Promise<Replayed> => {
          const next = await withOrder(storage, sub, replayedDelivery(delivery, sub, dueAt, now));
          return { delivery, was: text, next, dueAt };
        });
        const { changes, dues } = await commitOf(storage, await Promise.all(replayed));
        await storage.commit([...changes, ...opened, ...(options.also ?? [])]);
        storage.queue.add(dues);
        return found.length;
      } catch (error) {
        // Changed meanwhile: read again.
        if (!(error instanceof ConflictError)) throw error;
      }
    }
    let moved = 0;
    if (subs.length > 1)
      for (const sub of subs) moved += await move([sub], at, dueFrom, moved === 0 ? options : { ...options, also: [] });
    return moved;
  }

  /** Makes a delivery for a subscription that had none of this event, so that a new subscriber can get old events. */
  async function make(sub: Subscription, event: RelayEvent, text: string, also: readonly Change[]): Promise<boolean> {
    const dueAt = clock.now();
    const line: Due = {
      subscriptionId: sub.id,
      keyId: sub.keyId,
      ordinal: event.ordinal,
      dueAt,
      generation: sub.generation,
      cycle: 0,
      attempts: 0,
    };
    const listed: RelayEvent = { ...event, subscriptionIds: [...event.subscriptionIds, sub.id] };
    const made: Delivery = { ...freshDelivery(line, event.id), cycle: 1, updatedAt: dueAt };
    const next = await withOrder(storage, sub, made);
    for (let tries = 0; ; tries++) {
      const { changes, dues } = await commitOf(storage, [{ delivery: next, was: null, next, dueAt }]);
      try {
        await storage.commit([
          { op: "put", key: eventKey(event.keyId, event.ordinal), value: encodeEvent(listed), if: text },
          ...changes,
          ...reopened(event),
          ...also,
        ]);
      } catch (error) {
        if (isSequenceConflict(error) && tries < TRIES) continue;
        if (error instanceof ConflictError)
          throw new Problem("CONFLICT", "Another replay of this event came first. Read the event again.");
        throw error;
      }
      storage.queue.add(dues);
      return true;
    }
  }

  /** Replays one event for the subscription that is named. */
  async function one(event: RelayEvent, text: string, id: string, options: ReplayEventOptions): Promise<number> {
    const sub = await subscriptionCache.get(event.keyId, id);
    if (!isLive(sub)) throw noSuch("subscription");
    if (sub.status !== "active") return 0;
    const place = { eventId: event.id, ordinal: event.ordinal };
    if (await recipients.has(event, id)) return await move([sub], place, (now) => now, options);
    return wants(sub, event.type) && (await make(sub, event, text, options.also ?? [])) ? 1 : 0;
  }

  return {
    async event(keyId, eventId, options = {}) {
      const located = await locateEvent(storage, keyId, eventId);
      if (located === undefined) throw noSuch("event");
      const { event, text } = located;
      if (located.damaged)
        throw new Problem("NOT_REPLAYABLE", "The stored record of this event is damaged, so it cannot be sent.");
      const place = { eventId, ordinal: event.ordinal };
      const named = options.subscriptionId;
      let moved = 0;
      if (named !== undefined) moved = await one(event, text, named, options);
      else
        for await (const page of everyRecipient(recipients, event)) {
          const active: Subscription[] = [];
          for (const { id } of page) {
            const sub = await subscriptionCache.get(keyId, id);
            if (isLive(sub) && sub.status === "active") active.push(sub);
          }
          const once = moved === 0 ? options : { ...options, also: [] };
          if (active.length > 0) moved += await move(active, place, (now) => now, once);
        }
      if (moved === 0) throw await whyNot(event, options);
      return moved;
    },

    failed: createBulkReplay({
      storage,
      endings,
      clock,
      move: async (sub, at, dueFrom) => (await move([sub], at, dueFrom, {})) > 0,
    }),
  };
}

function replayable(delivery: Delivery, { force = false, subscriptionId }: ReplayEventOptions): boolean {
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
