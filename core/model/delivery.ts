/** A delivery: one event for one subscription, in one record that lasts. */
import type { Attempt } from "./attempt.ts";
import { ordinalTime } from "./ids.ts";
import { DUE, WAITING } from "./schema.ts";

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

/** Encodes the line's text; for a damaged line, returns the text as it was read. */
export function dueValue({ keyId, generation, cycle, attempts, waitMs, order, damaged }: Due): string {
  if (damaged !== undefined) return damaged;
  const text = `${keyId} ${generation} ${cycle} ${attempts}`;
  const whole = waitMs === undefined ? text : `${text} ${waitMs}`;
  return order === undefined ? whole : `${whole} @${order.sequence}.${order.place}`;
}
const DUE_VALUE =
  /^([A-Za-z0-9][A-Za-z0-9_:-]{0,63}) (\d{1,15}) (\d{1,15}) (\d{1,15})(?: (\d{1,15}))?(?: @(\d{1,3})\.(\d{1,15}))?$/;
/**
 * Reads a due line. The key gives its subscription and time. When only the text is not one that `dueValue` makes, it
 * returns a line with `damaged` set, so that the delivery can still be ended.
 * @throws SyntaxError when the key is not a due line's
 */
export function parseDue(key: string, value: string): Due {
  const { subscriptionId, dueAt, ordinal } = DUE.id(key);
  const whole = subscriptionId !== "" && ordinal !== "" && !ordinal.includes(":");
  if (!whole || DUE.key({ subscriptionId, dueAt, ordinal }) !== key)
    throw new SyntaxError("the key is not that of a due line");
  const said = DUE_VALUE.exec(value);
  const [, keyId = "", generation = 0, cycle = 0, attempts = 0, wait, sequence, place] = said ?? [];
  const due: Due = {
    subscriptionId,
    keyId,
    ordinal,
    dueAt,
    generation: Number(generation),
    cycle: Number(cycle),
    attempts: Number(attempts),
    waitMs: wait === undefined ? undefined : Number(wait),
    order: sequence === undefined ? undefined : { sequence: Number(sequence), place: Number(place) },
  };
  return said !== null && dueValue(due) === value ? due : { ...due, damaged: value };
}

export const waitingValue = (due: Due): string => `${due.dueAt} ${dueValue(due)}`;
/** @returns the due line that the delivery gets when its turn comes @throws SyntaxError when it cannot be read */
export function parseWaiting(key: string, value: string): Due {
  const { subscriptionId, ordinal } = WAITING.id(key);
  const space = value.indexOf(" ");
  const dueAt = Number(value.slice(0, space));
  const due = parseDue(DUE.key({ subscriptionId, dueAt, ordinal }), value.slice(space + 1));
  if (space < 1 || due.damaged !== undefined || due.order === undefined)
    throw new SyntaxError("the text is not that of a waiting delivery");
  return due;
}

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
