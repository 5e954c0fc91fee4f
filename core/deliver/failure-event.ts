/** Builds the operational event about a failed delivery. Operational events cause none themselves. */
import { deliveryId, type Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { OPERATIONAL } from "../model/names.ts";
import { subscriptionFailing, type Notice } from "../model/notice.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Prepared } from "../records/commit-once.ts";

const TYPE = "relay:delivery.failed";

export type FailureEvent = ReturnType<typeof failureEvent>;

interface Notify {
  readonly operational: {
    prepare(keyId: string, type: string, data: object): Promise<Prepared | undefined>;
    accept(keyId: string, type: string, data: object): Promise<void>;
  };
  readonly notices: { tell(notice: Notice): void };
}

export const failureEvent =
  ({ operational, notices }: Notify) =>
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
      prepare: () => operational.prepare(sub.keyId, TYPE, data),
      /** Stores the event in a commit of its own, for a failure that is stored already. @throws StorageError */
      late: () => operational.accept(sub.keyId, TYPE, data),
      /** Reports a stored failure as a notice too, of which there is at most one within an hour. Returns at once. */
      notice: () => notices.tell(subscriptionFailing(sub, data)),
    };
  };
