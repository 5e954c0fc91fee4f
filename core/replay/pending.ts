/**
 * Acts on one pending delivery by hand: tries it now, or cancels it. Neither touches a delivery that a node has leased,
 * since its attempt may be on the wire. A crash leaves it as it was or as it was asked for: each is one commit.
 */
import { type Delivery, neverTried } from "../model/delivery.ts";
import { ConflictError, untilCommitted } from "../model/errors.ts";
import { DAMAGED } from "../model/kind.ts";
import { DUE, HELD } from "../model/schema.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { isLive } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { dueOf, movedChanges } from "../records/delivery-records.ts";
import { asEnded } from "../records/ended-by.ts";
import { locateEvent } from "../records/find-event.ts";
import type { Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { endCurrent, readCurrent, type CurrentDelivery } from "./current-delivery.ts";

export interface PendingDeliveries {
  /**
   * Makes the next attempt due now. It counts like any other.
   * @param also changes stored with it, in the same commit (an audit line)
   * @throws Problem NOT_FOUND, NOT_PENDING (has ended, or waits behind another), DELIVERY_UNDER_WAY, CONFLICT
   */
  tryNow(keyId: string, eventId: string, subscriptionId: string, also: readonly Change[]): Promise<void>;
  /**
   * Ends it as cancelled, `cancel_requested`. In an ordered subscription the next one goes, whatever `onFailed` says: it
   * did not fail.
   * @throws as `tryNow`, but one that waits behind another is cancelled too
   */
  cancel(keyId: string, eventId: string, subscriptionId: string, also: readonly Change[]): Promise<void>;
}

type Act = (current: CurrentDelivery, also: readonly Change[]) => Promise<boolean>;

export function createPendingDeliveries(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Pick<Recipients, "has">;
  readonly clock: Pick<Clock, "now">;
}): PendingDeliveries {
  const { storage, subscriptionCache, clock, recipients } = deps;
  const { queue } = storage;

  /** Finds the delivery and acts on it, again while it changes. */
  async function on(
    act: Act,
    ...[keyId, eventId, subscriptionId, also]: Parameters<PendingDeliveries["tryNow"]>
  ): Promise<void> {
    const event = (await locateEvent(storage, keyId, eventId))?.event;
    const sub = await subscriptionCache.get(keyId, subscriptionId);
    if (event === undefined || !isLive(sub) || !(await recipients.has(event, subscriptionId))) throw noSuch("delivery");
    const acting = untilCommitted(async () => {
      const current = await readCurrent(storage, event, subscriptionId);
      const { status = "pending" } = (current && (asEnded(current.delivery, sub) ?? current.delivery)) ?? {};
      if (status !== "pending")
        throw new Problem("NOT_PENDING", `The delivery has ended: it is ${status}. Replay it to send it again.`);
      // It is being written.
      if (current?.line === undefined && current?.waits === undefined) throw new ConflictError([]);
      if (!(await act(current, also))) throw new Problem("DELIVERY_UNDER_WAY", UNDER_WAY);
    });
    await acting.catch(async (error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
      if ((await locateEvent(storage, keyId, eventId)) === undefined) throw noSuch("delivery");
      throw new Problem("CONFLICT", "The delivery is being written, or changes all the time. Read the event again.");
    });
  }

  /** Says behind what a delivery waits. */
  async function waiting({ order, subscriptionId }: Delivery): Promise<Problem> {
    const held = order && HELD.read(await storage.getItem(HELD.key({ subscriptionId, sequence: order.sequence })));
    const why =
      held === undefined || held === DAMAGED
        ? "It waits for its turn: an earlier delivery of its order has not ended. Try or cancel that one."
        : `It waits for its turn: the delivery of ${held.eventId} failed and holds it up. Replay or skip that one.`;
    return new Problem("NOT_PENDING", why);
  }

  const tryNow: Act = async ({ delivery, line }, also) => {
    if (line === undefined) throw await waiting(delivery);
    const now = clock.now();
    // One that is due already stays where it is in the queue of its subscription.
    if (line.dueAt <= now || neverTried(line))
      return await queue.withdraw(line, [{ op: "check", key: DUE.key(line), if: DUE.write(line) }, ...also], line);
    const next = { ...delivery, nextAttemptAt: now, updatedAt: now };
    const to = dueOf(next, now);
    return await queue.withdraw(line, [...movedChanges(line, to, next), ...also], to);
  };

  const cancel: Act = async (current, also) => {
    const asked = { status: "cancelled", reason: "cancel_requested", nextAttemptAt: undefined } as const;
    const over: Delivery = { ...current.delivery, ...asked, updatedAt: clock.now() };
    return await endCurrent(storage, current, over, { also });
  };

  return {
    tryNow: (...which) => on(tryNow, ...which),
    cancel: (...which) => on(cancel, ...which),
  };
}

const UNDER_WAY =
  "A node holds this delivery: an attempt is under way, or the next one follows within seconds. Read the event again.";
