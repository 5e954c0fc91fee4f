/** A delivery: one event for one subscription, in one record that lasts. */
import { createHash } from "node:crypto";
import type { Attempt } from "./attempt.ts";
import { provenJson, withChecksum } from "../lib/checksum.ts";
import { namesOf, valueAt } from "./filter.ts";
import { ordinalTime } from "./ids.ts";
import type { Codec } from "./kind.ts";
import type { Subscription } from "./subscription.ts";

export type DeliveryStatus = "pending" | "delivered" | "failed" | "cancelled";
export type EndReason =
  | "exhausted"
  | "endpoint_gone"
  | "receiver_disabled"
  | "receiver_aborted"
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

/** JSON, its checksum first. */
export const deliveryCodec: Codec<Delivery, Delivery> = {
  write(delivery) {
    const { keyId, eventId, ordinal, subscriptionId, status, reason, cycle, generation, attempts } = delivery;
    const { order, nextAttemptAt, updatedAt } = delivery;
    // One literal: V8 copies properties one by one where two are spread into a third.
    const json = JSON.stringify({
      keyId,
      eventId,
      ordinal,
      subscriptionId,
      status,
      reason,
      cycle,
      generation,
      order,
      attempts,
      nextAttemptAt,
      updatedAt,
    });
    return withChecksum(json.slice(1));
  },
  read(text) {
    const delivery = provenJson(text, '{"keyId":"') as Delivery;
    if (!Array.isArray(delivery.attempts)) throw new SyntaxError("the delivery has no list of attempts");
    return delivery;
  },
  id: (delivery) => delivery,
};

/** The attempts of a cycle that has ended, with the delivery that they belong to. */
type EndedCycle = Pick<Delivery, "subscriptionId" | "ordinal" | "cycle" | "attempts">;
/** JSON, its checksum first. Those of the first edition are a plain list. */
export const attemptsCodec: Codec<EndedCycle, Omit<EndedCycle, "attempts">> = {
  write: ({ subscriptionId, ordinal, cycle, attempts }) =>
    withChecksum(JSON.stringify({ subscriptionId, ordinal, cycle, attempts }).slice(1)),
  read(text, key, kind) {
    const read = provenJson(text, "[") as EndedCycle | readonly Attempt[];
    return Array.isArray(read) ? { ...kind.id(key), attempts: read as readonly Attempt[] } : (read as EndedCycle);
  },
  id: (cycle) => cycle,
};

/** A line of the replay store's index. */
export interface Failed {
  readonly keyId: string;
  readonly failedAt: number;
  readonly reason: EndReason;
  readonly cycle: number;
}
export const failedCodec: Codec<Failed> = {
  write: ({ keyId, failedAt, reason, cycle }) => `${keyId} ${failedAt} ${reason} ${cycle}`,
  read(text) {
    const [keyId = "", at, reason, of] = text.split(" ");
    const [failedAt, cycle] = [Number(at), Number(of)];
    if (!Number.isFinite(failedAt + cycle)) throw new SyntaxError("the text is not that of a failed delivery");
    return { keyId, failedAt, reason: reason as EndReason, cycle };
  },
};

const DUE_VALUE =
  /^([A-Za-z0-9][A-Za-z0-9_:-]{0,63}) (\d{1,15}) (\d{1,15}) (\d{1,15})(?: (\d{1,15}))?(?: @(\d{1,3})\.(\d{1,15}))?$/;
type DuePlace = Pick<Due, "subscriptionId" | "dueAt" | "ordinal">;

function dueValue({ keyId, generation, cycle, attempts, waitMs, order, damaged }: Due): string {
  if (damaged !== undefined) return damaged;
  const text = `${keyId} ${generation} ${cycle} ${attempts}`;
  const whole = waitMs === undefined ? text : `${text} ${waitMs}`;
  return order === undefined ? whole : `${whole} @${order.sequence}.${order.place}`;
}
function parseDue(value: string, { subscriptionId, dueAt, ordinal }: DuePlace): Due {
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
/**
 * The key gives its subscription and time. When only the text is not one that this writes, the line has `damaged` set, so
 * that the delivery can still be ended.
 */
export const dueCodec: Codec<Due, DuePlace> = {
  write: dueValue,
  read(text, key, kind) {
    const place = kind.id(key);
    if (place.subscriptionId === "" || place.ordinal === "" || place.ordinal.includes(":"))
      throw new SyntaxError("the key is not that of a due line");
    return parseDue(text, place);
  },
  id: (due) => due,
};
/** The due line that a delivery gets when its turn comes, behind its time. */
export const waitingCodec: Codec<Due, SequencePlace & Omit<DuePlace, "dueAt">> = {
  write: (due) => `${due.dueAt} ${dueValue(due)}`,
  read(text, key, kind) {
    const space = text.indexOf(" ");
    const due = parseDue(text.slice(space + 1), { ...kind.id(key), dueAt: Math.floor(Number(text.slice(0, space))) });
    if (space < 1 || !(due.dueAt >= 0) || due.damaged !== undefined || due.order === undefined)
      throw new SyntaxError("the text is not that of a waiting delivery");
    return due;
  },
  id: ({ subscriptionId, ordinal, order }) => ({ subscriptionId, ordinal, ...(order as SequencePlace) }),
};

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

/**
 * Sequences of a subscription with `orderBy`. Values share them by a hash, so that their number is bounded: equal values
 * always have the same one. A constant, because a stored place names its sequence.
 */
export const SEQUENCES_EACH = 16;
/** Most ordered subscriptions of one key: the commit of an event writes a row for each of them. */
export const MOST_ORDERED = 10;

/**
 * Returns the sequence of an event. One without `orderBy` has a single sequence, and so has a value that is missing.
 * @param data returns the event's data
 */
export function sequenceOf({ orderBy }: Pick<Subscription, "orderBy">, type: string, data: () => unknown): number {
  if (orderBy === undefined) return 0;
  const value = valueAt(namesOf(orderBy), { type, data: data() });
  const hash = createHash("sha256").update(JSON.stringify(value) ?? "");
  return (hash.digest()[0] as number) % SEQUENCES_EACH;
}
