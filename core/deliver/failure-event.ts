/** Builds the operational event about a failed delivery. Operational events cause none themselves. */
import { deliveryId, type Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { OPERATIONAL } from "../model/names.ts";
import { subscriptionFailing } from "../model/notice.ts";
import type { Subscription } from "../model/subscription.ts";
import type { CachedEvent } from "./event-cache.ts";
import type { Publisher, Operational } from "../publish/accept.ts";

export interface FailureEvent {
  /** Returns what is stored with the failure; `undefined` when no subscription wants it. @throws StorageError */
  of(sub: Subscription, loaded: CachedEvent, failed: Delivery): Promise<Operational | undefined>;
  /** Stores the event in a commit of its own, for a failure that is stored already. @throws StorageError */
  late(sub: Subscription, loaded: CachedEvent, failed: Delivery): Promise<void>;
  /** Reports a stored failure as a notice too, of which there is at most one within an hour. Returns at once. */
  notice(sub: Subscription, loaded: CachedEvent, failed: Delivery): void;
}

const TYPE = "relay:delivery.failed";

export const failureEvent = (
  intake: Pick<Publisher, "operational" | "acceptOperational" | "notices">,
): FailureEvent => ({
  async of(sub, { event }, failed) {
    if (event.type.startsWith(OPERATIONAL)) return undefined;
    return await intake.operational(sub.keyId, TYPE, dataOf(sub, event, failed));
  },
  async late(sub, { event }, failed) {
    if (event.type.startsWith(OPERATIONAL)) return;
    await intake.acceptOperational(sub.keyId, TYPE, dataOf(sub, event, failed));
  },
  notice(sub, { event }, failed) {
    if (event.type.startsWith(OPERATIONAL)) return;
    intake.notices.tell(subscriptionFailing(sub, dataOf(sub, event, failed)));
  },
});

const dataOf = (sub: Subscription, event: RelayEvent, failed: Delivery): Readonly<Record<string, unknown>> => ({
  deliveryId: deliveryId(failed.ordinal, sub.id),
  eventId: event.id,
  type: event.type,
  subscriptionId: sub.id,
  reason: failed.reason,
  cycle: failed.cycle,
  attempts: failed.attempts.length,
});
