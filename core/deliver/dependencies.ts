/** What the attempts of all deliveries are handed. */
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { RetryOptions, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import type { EventCache } from "./event-cache.ts";
import type { FailureEvent } from "./failure-event.ts";
import type { OwnFaults } from "./own-faults.ts";
import type { Recipients } from "../records/recipients.ts";
import type { Send } from "./send.ts";
import type { Slots } from "./slots.ts";
import type { Report } from "./report.ts";

/** How long an attempt of this delivery (ordinal) must wait, ms, or `undefined` when it may be made. */
export type AttemptGate = (sub: Subscription, ordinal: string) => MaybePromise<number | undefined>;

/** What the attempts of all deliveries share. */
export interface DeliveryDeps {
  readonly storage: Pick<Storage, "getItem" | "range" | "queue">;
  readonly directory: SubscriptionCache;
  readonly recipients: Pick<Recipients, "has">;
  readonly hot: EventCache;
  readonly send: Send;
  readonly faults: OwnFaults;
  readonly slots: Slots;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly retry: RetryOptions;
  /** Longest wait that is held under the lease, ms. */
  readonly holdMs: number;
  readonly mostHeld: number;
  /** Waits that are held now. */
  heldWaits: number;
  /** The endpoint answered 410: its subscription ends here. */
  readonly gone: (keyId: string, subscriptionId: string, eventType: string) => Promise<void>;
  /** Asked before each attempt, in order; the first that makes it wait is the last that is asked. */
  readonly gates: readonly AttemptGate[];
  /** Told when a delivery that may have asked them is under way here no more, whatever became of it. */
  readonly left?: (subscriptionId: string, ordinal: string) => void;
  readonly tell: Report;
  /** The receiver has asked for rest, for so long. */
  readonly rests?: (subscriptionId: string, ms: number) => void;
  /** What else is to be stored with a failed delivery: the operational event that tells of it. */
  readonly notice: FailureEvent;
  readonly log: Log;
  readonly metrics: Metrics;
}
