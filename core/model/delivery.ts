/** A delivery: one event for one subscription, one record for ever. */
import type { Attempt } from "./attempt.ts";
import { ordinalTime } from "./ids.ts";

export type DeliveryStatus = "pending" | "delivered" | "failed" | "cancelled";
export type EndReason =
  | "exhausted"
  | "endpoint_gone"
  | "subscription_disabled"
  | "subscription_deleted"
  | "record_damaged";

export interface Delivery {
  readonly keyId: string;
  readonly eventId: string;
  /** The event's: delivery = ordinal + subscription. */
  readonly ordinal: string;
  readonly subscriptionId: string;
  readonly status: DeliveryStatus;
  readonly reason?: EndReason;
  /** 0 at first; a replay adds 1. */
  readonly cycle: number;
  /** The subscription's generation when this cycle began; see `Subscription.generation`. */
  readonly generation: number;
  /** Attempts of the current cycle. Those of earlier cycles stand in rows of their own. */
  readonly attempts: readonly Attempt[];
  /** Epoch ms; present while pending. It is also the time in the delivery's due line. */
  readonly nextAttemptAt?: number;
  /** Epoch ms. */
  readonly updatedAt: number;
}

/** A line of the due index: enough to claim a delivery and to know which attempt is next, and nothing else. */
export interface Due {
  readonly subscriptionId: string;
  readonly keyId: string;
  readonly ordinal: string;
  /** Epoch ms. Of a delivery that was never tried, this is the event's `acceptedAt`. */
  readonly dueAt: number;
  readonly generation: number;
  readonly cycle: number;
  /** Attempts already recorded in this cycle. */
  readonly attempts: number;
  /**
   * How long the delivery was to wait when the line was written, ms. A queue believes no `dueAt` that is further away than
   * this: the clock that wrote it was wrong then. Absent for a delivery that was never tried, and in lines of version 1.
   */
  readonly waitMs?: number;
  /** The line's text, when it cannot be read: what it says of key, generation, cycle and attempts is not known then. */
  readonly damaged?: string;
}

/** True for the line of a delivery that was neither tried nor replayed. Such a line is due, whatever its time says. */
export const neverTried = (due: Due): boolean =>
  due.cycle === 0 && due.attempts === 0 && due.dueAt === ordinalTime(due.ordinal);

export type EventStatus = "pending" | "failed" | "delivered" | "cancelled" | "unmatched";

/** The status of an event, derived from those of its deliveries. */
export function eventStatus(deliveries: readonly DeliveryStatus[]): EventStatus {
  if (deliveries.length === 0) return "unmatched";
  for (const status of ["pending", "failed", "delivered"] as const) {
    if (deliveries.includes(status)) return status;
  }
  return "cancelled";
}

export function deliveryId(ordinal: string, subscriptionId: string): string {
  return `dlv_${ordinal}_${subscriptionId.slice("sub_".length)}`;
}

export function attemptId(ordinal: string, subscriptionId: string, cycle: number, number: number): string {
  return `att_${ordinal}_${subscriptionId.slice("sub_".length)}_${cycle}_${number}`;
}
