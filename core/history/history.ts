/** Defines the queries of the history of events and deliveries. */
import type { Attempt, AttemptError } from "../model/attempt.ts";
import type { Delivery, DeliveryStatus, EventStatus } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import type { Subscription } from "../model/subscription.ts";

export interface EventFilter {
  readonly status?: EventStatus;
  readonly type?: string;
  readonly subscriptionId?: string;
  /** Epoch ms of acceptance: from (inclusive) … to (exclusive). */
  readonly since?: number;
  readonly until?: number;
  /** How its id begins. */
  readonly id?: string;
  /** A part of its data, as that was published: letter by letter, escapes as they are. */
  readonly text?: string;
  /** It has a delivery in this state: the one that the fields below and `subscriptionId` are about. */
  readonly delivery?: Exclude<DeliveryStatus, "cancelled">;
  /** At least one attempt, of the newest cycle of a delivery, meets all three that are given. */
  readonly statusCode?: number;
  readonly error?: AttemptError;
  readonly minDurationMs?: number;
}

export interface EventSummary {
  readonly event: RelayEvent;
  /**
   * True when its record is damaged: only key, ordinal and times of `event` are certain then, and it has no body. Also
   * true in a list when the snapshot of its subscriptions is damaged: its status is not certain then.
   */
  readonly damaged: boolean;
  readonly status: EventStatus;
  /** Its deliveries as they are now; absent for a wide event, which may have very many. */
  readonly deliveries?: readonly Delivery[];
}

/** A delivery as it is now, with the attempts of its newest cycle; earlier ones are read in pages of their own. */
export interface DeliveryDetail {
  readonly delivery: Delivery;
  readonly attempts: readonly Attempt[];
  /** The type of its event, in a list of one subscription's deliveries; absent where the event cannot be read. */
  readonly type?: string;
}

export interface DeliveriesRequest {
  /** How many to skip. */
  readonly from: number;
  readonly limit: number;
}

interface EventDetail extends Omit<EventSummary, "deliveries"> {
  readonly deliveries: readonly DeliveryDetail[];
  /** How many to skip for the next page; absent on the last page. */
  readonly next?: number;
}

export interface HistoryPage<Item> {
  readonly items: readonly Item[];
  /** Where the next page begins; absent on the last page. A page may be empty and still have a next one. */
  readonly next?: string;
}

export interface PageRequest {
  readonly after?: string;
  readonly limit: number;
}

export interface History {
  /** Newest first. */
  events(keyId: string, filter: EventFilter, page: PageRequest): Promise<HistoryPage<EventSummary>>;
  /** Reads an event with a page of its deliveries, in the order of its list. */
  event(keyId: string, eventId: string, page?: DeliveriesRequest): Promise<EventDetail | undefined>;
  /** Yields every delivery of an event as it is now, in pages, without attempts of earlier cycles. */
  everyDelivery(keyId: string, eventId: string): AsyncGenerator<readonly Delivery[]>;
  /** Reads the deliveries of one subscription, newest event first. */
  deliveries(
    subscription: Subscription,
    status: DeliveryStatus | undefined,
    page: PageRequest,
  ): Promise<HistoryPage<DeliveryDetail>>;
}
