/** Whether a delivery may still be attempted, judged by its subscription as it is now: pure. */
import type { DeliveryStatus, EndReason } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";

export interface EndedBySubscription {
  readonly status: Extract<DeliveryStatus, "failed" | "cancelled">;
  readonly reason: EndReason;
}

/**
 * A pending delivery ends when its subscription is deleted, disabled, or has been disabled since its cycle began
 * (re-enabling resumes nothing). `undefined`: it goes on.
 * @param generation the subscription's when this cycle of the delivery began
 */
export function endedBy(sub: Subscription | undefined, generation: number): EndedBySubscription | undefined {
  if (sub === undefined || sub.deletedAt !== undefined) return { status: "cancelled", reason: "subscription_deleted" };
  if (sub.status === "disabled" || generation < sub.generation)
    return { status: "failed", reason: "subscription_disabled" };
  return undefined;
}

/**
 * What storage said of the lease and the subscription holds for so long, ms; a process that was stopped meanwhile, or
 * cut off, asks again. So a change that other nodes cannot be told of holds there too once this is over.
 */
export const FRESH_MS = 5_000;
