/** Decides whether the subscription, as it is now, ends a delivery. Pure. */
import type { Delivery, DeliveryStatus, EndReason } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Metrics } from "../ports/plugin.ts";
import { isOutline } from "./subscription-record.ts";

interface EndedBySubscription {
  readonly status: Extract<DeliveryStatus, "failed" | "cancelled">;
  readonly reason: EndReason;
}

/**
 * A pending delivery ends when its subscription is deleted, disabled, or was disabled since its cycle began (enabling
 * it again resumes nothing). It fails when the record of its subscription is damaged. `undefined`: the delivery goes on.
 * @param generation the subscription's generation when this cycle began
 */
export function endedBy(sub: Subscription | undefined, generation: number): EndedBySubscription | undefined {
  if (sub === undefined || sub.deletedAt !== undefined) return { status: "cancelled", reason: "subscription_deleted" };
  if (sub.status === "active" && generation >= sub.generation) return undefined;
  return { status: "failed", reason: isOutline(sub) ? "record_damaged" : "subscription_disabled" };
}

/**
 * Returns a pending delivery as its subscription has ended it: so it reads, and so it is stored. `undefined`: it goes on.
 */
export function asEnded(delivery: Delivery, sub: Subscription | undefined): Delivery | undefined {
  const ended = delivery.status === "pending" ? endedBy(sub, delivery.generation) : undefined;
  if (ended === undefined) return undefined;
  const { nextAttemptAt: _next, ...rest } = delivery;
  return { ...rest, ...ended, updatedAt: Math.max(delivery.updatedAt, sub?.updatedAt ?? 0) };
}

/** Counts a delivery that its subscription or damage has ended. @param failed called with those that have failed */
export function countEnd(
  { keyId, subscriptionId, status, reason }: Delivery,
  metrics: Pick<Metrics, "count">,
  failed?: (keyId: string, subscriptionIds: readonly string[]) => void,
): void {
  metrics.count("deliveries", { outcome: reason === "record_damaged" ? "damaged" : status });
  if (status === "failed") failed?.(keyId, [subscriptionId]);
}

/**
 * How long an answer of the storage about lease and subscription stays valid, ms. A process that was stopped or cut off
 * for longer asks again. So a change reaches even a node that gets no message, once this has passed.
 */
export const FRESH_MS = 5_000;
