/** Builds the operational event about a failed delivery. Operational events cause none themselves. */
import { deliveryId, type Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { OPERATIONAL } from "../model/names.ts";
import { subscriptionFailing } from "../model/notice.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Publisher } from "../publish/accept.ts";

const TYPE = "relay:delivery.failed";

export type FailureEvent = ReturnType<typeof failureEvent>;

export const failureEvent =
  (intake: Pick<Publisher, "operational" | "acceptOperational" | "notices">) =>
  (sub: Subscription, event: RelayEvent, failed: Delivery) => {
    if (event.type.startsWith(OPERATIONAL)) return undefined;
    const data = {
      deliveryId: deliveryId(failed.ordinal, sub.id),
      eventId: event.id,
      type: event.type,
      subscriptionId: sub.id,
      reason: failed.reason,
      cycle: failed.cycle,
      attempts: failed.attempts.length,
    };
    return {
      /** Returns what is stored with the failure; `undefined` when no subscription wants it. @throws StorageError */
      prepare: () => intake.operational(sub.keyId, TYPE, data),
      /** Stores the event in a commit of its own, for a failure that is stored already. @throws StorageError */
      late: () => intake.acceptOperational(sub.keyId, TYPE, data),
      /** Reports a stored failure as a notice too, of which there is at most one within an hour. Returns at once. */
      notice: () => intake.notices.tell(subscriptionFailing(sub, data)),
    };
  };
