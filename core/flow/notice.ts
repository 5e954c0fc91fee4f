/** The operational event that tells of a failed delivery. Operational events cause none themselves. */
import { deliveryId, type Delivery } from "../model/delivery.ts";
import { OPERATIONAL } from "../model/names.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Loaded } from "./hot.ts";
import type { Intake, Operational } from "./intake.ts";

/** What is to be stored with the failure, and called once that is done; `undefined` when nobody wants to be told. */
export type Notice = (sub: Subscription, loaded: Loaded, failed: Delivery) => Promise<Operational | undefined>;

export const failureNotice =
  (intake: Pick<Intake, "operational">): Notice =>
  async (sub, { event }, failed) => {
    if (event.type.startsWith(OPERATIONAL)) return undefined;
    return await intake.operational(sub.keyId, "relay:delivery.failed", {
      deliveryId: deliveryId(failed.ordinal, sub.id),
      eventId: event.id,
      type: event.type,
      subscriptionId: sub.id,
      reason: failed.reason,
      cycle: failed.cycle,
      attempts: failed.attempts.length,
    });
  };
