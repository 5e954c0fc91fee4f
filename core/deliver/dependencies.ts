/** Dependencies of a delivery. */
import type { RetryOptions } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import type { Away } from "./away.ts";
import type { EventCache } from "./event-cache.ts";
import type { FailureEvent } from "./failure-event.ts";
import type { AttemptGate } from "./gates.ts";
import type { OwnFaults } from "./own-faults.ts";
import type { Recipients } from "../records/recipients.ts";
import type { Send } from "./send.ts";
import type { Slots } from "./slots.ts";
import type { Report } from "./report.ts";
import type { Transforming } from "./transform.ts";

/** What all deliveries share. */
export interface DeliveryDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "watch" | "queue">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Pick<Recipients, "has">;
  readonly eventCache: EventCache;
  /** Called only for a subscription with a transform. */
  readonly transform: Transforming;
  readonly send: Send;
  readonly faults: OwnFaults;
  readonly away: Pick<Away, "note">;
  readonly slots: Slots;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly retry: RetryOptions;
  /** Longest wait that is held under the lease, ms. */
  readonly holdMs: number;
  readonly mostHeld: number;
  /** How many waits are held now. */
  heldWaits: number;
  /** Ends the subscription, because its endpoint answered 410. */
  readonly gone: (keyId: string, subscriptionId: string, eventType: string) => Promise<void>;
  /** Pauses of the subscription. Asked in order before each attempt, and again when its transform has run. */
  readonly pauses: readonly AttemptGate[];
  /** Asked after them, once, of a subscription that has a rate: what it lets through counts. */
  readonly rateLimit: AttemptGate;
  /** Called when a delivery that may have passed the gates is no longer under way here, whatever its result. */
  readonly left?: (subscriptionId: string, ordinal: string) => void;
  readonly report: Report;
  /** Called right after the commit for a delivery that failed without an attempt that ended it. */
  readonly failed?: (keyId: string, subscriptionIds: readonly string[]) => void;
  /** Called when the receiver asked for a pause of this length. */
  readonly retryAfter?: (subscriptionId: string, ms: number) => void;
  /** Builds the operational event that is stored with a failed delivery. */
  readonly failureEvent: FailureEvent;
  readonly log: Log;
  readonly metrics: Metrics;
}
