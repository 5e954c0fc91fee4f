/** The operational event that tells of a failed delivery. Operational events cause none themselves. */
import { deliveryId } from "../model/delivery.ts";
import { OPERATIONAL } from "../model/names.ts";
import type { DeliverDeps } from "./deliver.ts";
import type { Intake } from "./intake.ts";

export const failureNotice =
  (intake: Pick<Intake, "operational">): DeliverDeps["notice"] =>
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
