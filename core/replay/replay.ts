/** Replays failed deliveries: they become pending again in a new cycle, on the same path. */
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError } from "../model/errors.ts";
import { encodeEvent, type RelayEvent } from "../model/event.ts";
import { eventKey } from "../model/keys.ts";
import { Problem } from "../model/problem.ts";
import { isLive, wants, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { reopened, reopening } from "../records/fanout-row.ts";
import { locateEvent } from "../records/find-event.ts";
import { createRecipients, everyRecipientId, type Recipients } from "../records/recipients.ts";
import { freshDelivery } from "../records/delivery-records.ts";
import { isSequenceConflict } from "../records/sequences.ts";
import { readCurrent } from "./current-delivery.ts";
import { commitOf, withOrder } from "./replay-order.ts";
import {
  createBulkReplay,
  replayedDelivery,
  type ReplayPosition,
  type BulkReplayed,
  type ReplayFailedOptions,
} from "./bulk-replay.ts";
import { endedBy } from "../records/ended-by.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";

export type { BulkReplayed, ReplayFailedOptions } from "./bulk-replay.ts";

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
  readonly clock: Clock;
}): Replay {
  const { storage, subscriptionCache, clock, recipients = createRecipients(storage) } = deps;

  /**
   * Moves one delivery.
   * @param dueFrom returns when it is due by the clock's reading, which is taken when the line is written
   * @returns whether it could be moved
   */
  async function move(
    sub: Subscription,
    at: ReplayPosition,
    dueFrom: (now: number) => number,
    options: ReplayEventOptions,
  ): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const place = { id: at.eventId, keyId: sub.keyId, ordinal: at.ordinal };
      const current = await readCurrent(storage, place, sub.id);
      if (current === undefined || !replayable(current.delivery, sub, options)) return false;
      const opened = await reopening(storage, sub.keyId, at.ordinal);
      if (opened === undefined) return false;
      const { delivery, text, line: stale, waits } = current;
      const now = clock.now();
      const dueAt = dueFrom(now);
      const next = await withOrder(storage, sub, replayedDelivery(delivery, sub, dueAt, now));
      const { changes, dues } = await commitOf(storage, [{ delivery, was: text, next, dueAt, stale, waits }]);
      try {
        await storage.commit([...changes, ...opened, ...(options.also ?? [])]);
        storage.queue.add(dues);
        return true;
      } catch (error) {
        // Changed meanwhile: read again.
        if (!(error instanceof ConflictError)) throw error;
      }
    }
    return false;
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

  return {
    async event(keyId, eventId, options = {}) {
      const located = await locateEvent(storage, keyId, eventId);
      if (located === undefined) throw new Problem("NOT_FOUND", "There is no such event on this key.");
      const { event, text } = located;
      if (located.damaged)
        throw new Problem("NOT_REPLAYABLE", "The stored record of this event is damaged, so it cannot be sent.");
      const named = options.subscriptionId;
      let moved = 0;
      for await (const id of named === undefined ? everyRecipientId(recipients, event) : [named]) {
        const sub = await subscriptionCache.get(keyId, id);
        if (named !== undefined && !isLive(sub))
          throw new Problem("NOT_FOUND", "There is no such subscription on this key.");
        if (!isLive(sub) || sub.status !== "active") continue;
        const once = moved === 0 ? options : { ...options, also: [] };
        const had = named === undefined || (await recipients.has(event, id));
        const done = had
          ? await move(sub, { eventId, ordinal: event.ordinal }, (now) => now, once)
          : wants(sub, event.type) && (await make(sub, event, text, once.also ?? []));
        if (done) moved++;
      }
      if (moved === 0) {
        throw new Problem(
          "NOT_REPLAYABLE",
          "No delivery of this event is failed and belongs to an active subscription. Use force for delivered ones.",
        );
      }
      return moved;
    },

    failed: createBulkReplay({ storage, clock, move: (sub, at, dueFrom) => move(sub, at, dueFrom, {}) }),
  };
}

function replayable(
  delivery: Delivery,
  sub: Subscription,
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
      // Pending in its record, but in fact ended: its subscription was disabled since its cycle began.
      return endedBy(sub, delivery.generation)?.status === "failed";
  }
}
