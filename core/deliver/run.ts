/** One delivery under way: what is known of it while this node holds its lease, and what its steps need. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery, Due } from "../model/delivery.ts";
import type { DisabledReason, RetryOptions, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Lease, Storage } from "../ports/storage.ts";
import type { Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import type { Away } from "./away.ts";
import type { CircuitBreaker } from "./circuit-breaker.ts";
import type { CachedEvent, EventCache } from "./event-cache.ts";
import type { FailureEvent } from "./failure-event.ts";
import type { Gates } from "./gates.ts";
import type { RateLimit } from "./rate-limit.ts";
import type { Send, SentAttempt, Transforming } from "./send.ts";
import type { Slot, Slots } from "./slots.ts";

/** The parts that all deliveries share. */
export interface DeliveryDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "watch" | "queue">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Pick<Recipients, "has">;
  readonly eventCache: EventCache;
  /** Called only for a subscription with a transform. */
  readonly transform: Transforming;
  readonly send: Send;
  /** Our own faults in a row, by the name of the delivery. */
  readonly faults: Map<string, number>;
  readonly away: Pick<Away, "note">;
  readonly slots: Pick<Slots, "tryTake">;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly retry: RetryOptions;
  /** Longest wait that is held under the lease, ms. */
  readonly holdMs: number;
  readonly mostHeld: number;
  /** Those whose waits are held now. */
  readonly heldWaits: Set<Run>;
  /** True: `webhook-delivery` of an answer is obeyed. @default false */
  readonly receiverControl?: boolean;
  /** Ends the subscription, because its endpoint answered 410, or asked for it. */
  readonly disable: (keyId: string, subscriptionId: string, reason: DisabledReason, eventType: string) => Promise<void>;
  /** Asked before each attempt, and again when its transform has run. */
  readonly gates: Pick<Gates, "paused" | "admit" | "left" | "pause">;
  /** Asked after them, once, of a subscription that has a rate: what it lets through counts. */
  readonly rateLimit: RateLimit["admit"];
  /** Called for each delivery that begins. */
  readonly began?: (due: Due) => void;
  /** Learns of each attempt before its outcome is stored: what is handed over meanwhile must meet what it has shown. */
  readonly circuitBreaker: Pick<CircuitBreaker, "failing" | "attempted">;
  /** Called for each attempt once its outcome is stored. */
  readonly attempted: AttemptObserver;
  /** Called right after the commit for a delivery that failed without an attempt that ended it. */
  readonly failed?: (keyId: string, subscriptionIds: readonly string[]) => void;
  /** Called when the receiver asked for a pause of this length. */
  readonly retryAfter?: (subscriptionId: string, ms: number) => void;
  /** The operational event that is stored with a failed delivery. */
  readonly failureEvent: FailureEvent;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Gives the delivery back, and keeps its subscription from claims for so long; `hold`: for this node's sake, it ends no pause. */
interface TurnAway {
  readonly ms: number;
  readonly how: "pause" | "hold";
}
/** Another attempt follows; under the same lease where it is held. */
interface Retry {
  readonly held: boolean;
}
/** `go`: on to the next step; `again`: from the first step; `over`: the delivery has ended. */
export type Next = "go" | "again" | "over" | TurnAway | Retry;
export type Step = (run: Run) => MaybePromise<Next>;

/** The state of one delivery. Steps read what earlier ones have set. */
export interface Run {
  readonly lease: Lease;
  readonly signal: AbortSignal;
  /** Aborts when waits must end, so that their deliveries go back. */
  readonly draining: AbortSignal | undefined;
  readonly deps: DeliveryDeps;
  /** Undefined while it has none. */
  slot: Slot | undefined;
  /** Its line in the due index now. */
  line: Due;
  /** Undefined until it is loaded. */
  delivery: Delivery | undefined;
  /** Undefined until it is loaded, and while it waits. */
  loaded: CachedEvent | undefined;
  /** `EventCache.forgotten` when the event was last seen in storage. */
  seen: number;
  /** As it was when this attempt began: set by `ended`. */
  sub: Subscription;
  turn: Pick<Attempt, "cycle" | "number">;
  /** True once a step was waited for since `ended` read the subscription. */
  waited: boolean;
  /** The event as it is sent, or the attempt that ended before anything was: set by `body`. */
  made: CachedEvent | SentAttempt;
  /** Monotonic ms at which the lease was asked for: set by `lease`. */
  askedAt: number;
  /** Set by `send`, with the monotonic ms at which it was answered. */
  sent: SentAttempt;
  answeredAt: number;
  /** Set by `judge`, with the delivery as the attempt leaves it. */
  outcome: Outcome;
  tried: Delivery;
  /** Follows the attempt: set by `record`. */
  after: Next;
}

/**
 * Makes the remaining attempts of a delivery, in the slot taken for it. Resolves when the delivery has ended, went back
 * to the queue, or was lost; the slot is free by then. When `draining` aborts, waits end at once and their deliveries
 * go back with the times that they wait for; requests under way continue.
 * @param handed the event, where it comes straight from its acceptance
 * @throws a fault of ours: the delivery is unchanged, and the lease still held
 */
export type Deliver = (
  lease: Lease,
  slot: Slot,
  signal: AbortSignal,
  draining?: AbortSignal,
  handed?: CachedEvent,
) => Promise<void>;
