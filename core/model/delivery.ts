/** A delivery: one event for one subscription, in one record that lasts. */
import type { Attempt } from "./attempt.ts";
import { ordinalTime } from "./ids.ts";

export type DeliveryStatus = "pending" | "delivered" | "failed" | "cancelled";
export type EndReason =
  | "exhausted"
  | "endpoint_gone"
  | "subscription_disabled"
  | "subscription_deleted"
  | "cancel_requested"
  | "record_damaged";

export interface Delivery {
  readonly keyId: string;
  readonly eventId: string;
  /** The event's ordinal: delivery = ordinal + subscription. */
  readonly ordinal: string;
  readonly subscriptionId: string;
  readonly status: DeliveryStatus;
  readonly reason?: EndReason;
  /** 0 at first; each replay adds 1. */
  readonly cycle: number;
  /** The subscription's generation when this cycle began; see `Subscription.generation`. */
  readonly generation: number;
  /** Set for a delivery that goes in order. */
  readonly order?: SequencePlace;
  /** Attempts of the current cycle. Those of earlier cycles are in records of their own. */
  readonly attempts: readonly Attempt[];
  /**
   * Epoch ms; present while pending. It is also the time in the delivery's due line, which one that goes in order gets
   * when its turn comes.
   */
  readonly nextAttemptAt?: number;
  /** Epoch ms. */
  readonly updatedAt: number;
}

/** Where a delivery stands in the order of its subscription. */
export interface SequencePlace {
  /** The sequence: deliveries of one sequence go one after another, different ones side by side. */
  readonly sequence: number;
  /** Lower ones go first. 0: not placed yet, to be placed at the end. */
  readonly place: number;
}

/** A line of the due index: just enough to claim a delivery and to know the number of its next attempt. */
export interface Due {
  readonly subscriptionId: string;
  readonly keyId: string;
  readonly ordinal: string;
  /** Epoch ms. For a delivery without an attempt, the event's `acceptedAt`. */
  readonly dueAt: number;
  readonly generation: number;
  readonly cycle: number;
  /** Attempts already recorded in this cycle. */
  readonly attempts: number;
  /**
   * How long the delivery had to wait when the line was written, ms. A queue ignores a `dueAt` that is further away
   * than this, because the clock that wrote it was wrong. Absent for a delivery without an attempt, and in lines of
   * version 1.
   */
  readonly waitMs?: number;
  /** Set for a delivery that goes in order: others of its sequence wait until it ends. */
  readonly order?: SequencePlace;
  /** The line's text, when it cannot be read. Its key, generation, cycle and attempts are unknown then. */
  readonly damaged?: string;
}

/** True for the line of a delivery without an attempt or replay. Such a line is due at once, whatever its time is. */
export const neverTried = (due: Due): boolean =>
  due.cycle === 0 && due.attempts === 0 && due.dueAt === ordinalTime(due.ordinal);

export type EventStatus = "pending" | "failed" | "delivered" | "cancelled" | "unmatched";

/** Derives the status of an event from the statuses of its deliveries. */
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
