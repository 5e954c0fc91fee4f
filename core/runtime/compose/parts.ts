/** The parts of the delivery path by name: what must exist before it, and the rooms that are composed from that. */
import type { Away } from "../../deliver/away.ts";
import type { Dispatcher } from "../../deliver/dispatcher.ts";
import type { CircuitBreaker } from "../../deliver/circuit-breaker.ts";
import type { Deliver } from "../../deliver/deliveries.ts";
import type { EventCache } from "../../deliver/event-cache.ts";
import type { InFlight } from "../../deliver/in-flight.ts";
import type { RateLimit } from "../../deliver/rate-limit.ts";
import type { RetryAfter } from "../../deliver/retry-after.ts";
import type { Send } from "../../deliver/send.ts";
import type { Slots } from "../../deliver/slots.ts";
import type { Sweeper } from "../../deliver/sweeper.ts";
import type { Transforming } from "../../deliver/transform.ts";
import type { SendTestEvent } from "../../deliver/test-event.ts";
import type { Guard } from "../../guard/index.ts";
import type { AttemptSearch } from "../../history/attempt-search.ts";
import type { AttemptHistory } from "../../history/attempts.ts";
import type { History } from "../../history/history.ts";
import type { LiveFeed } from "../../history/live-feed.ts";
import type { TransportChoice } from "../../model/transport-choice.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Log, Metrics } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import type { Publisher } from "../../publish/accept.ts";
import type { NoticeWatch } from "../../publish/notice-watch.ts";
import type { EventCheck } from "../../publish/event-checks.ts";
import type { FanoutBounds } from "../../publish/write-event.ts";
import type { AuditTrail } from "../../records/audit-trail.ts";
import type { Endings } from "../../records/endings.ts";
import type { Recipients } from "../../records/recipients.ts";
import type { SubscriptionCache } from "../../records/subscription-cache.ts";
import type { Told } from "../../records/subscription-record.ts";
import type { PendingDeliveries } from "../../replay/pending.ts";
import type { Replay } from "../../replay/replay.ts";
import type { ReplayJob } from "../../replay/replay-job.ts";
import type { EventErasure } from "../../retention/erase-event.ts";
import type { KeyErasure } from "../../retention/erase-key.ts";
import type { Retention } from "../../retention/retention.ts";
import type { Ed25519Key } from "../../signing/ed25519.ts";
import type { Signer } from "../../signing/signer.ts";
import type { StatsCollector } from "../../stats/collect.ts";
import type { StatsQuery } from "../../stats/query.ts";
import type { ClusterMessages } from "../../subscriptions/cluster-messages.ts";
import type { NotifyTargets } from "../../subscriptions/notify-targets.ts";
import type { Subscriptions } from "../../subscriptions/subscriptions.ts";
import type { Transforms } from "../transforms/transforms.ts";
import type { ThreadPlace } from "../threads/node-thread.ts";
import type { NamedObserver, Observers } from "./observers.ts";
import type { Catalogue } from "./reload.ts";

/** What exists before the path: the plan, the ports that are open, and the process around them. */
export interface PathPorts {
  readonly plan: Plan;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly keys: Keys;
  /** Keys that sign deliveries with Ed25519 too. */
  readonly webhookKeys?: readonly Ed25519Key[] | undefined;
  readonly guard: Pick<Guard, "register">;
  readonly storage: Storage;
  readonly transports: readonly Transport[];
  /** Observers of plug-ins. */
  readonly observerPlugins: readonly NamedObserver[];
  readonly fanoutBounds: FanoutBounds;
  /** Runs the transforms of the config; without it there are none. */
  readonly transforms?: Transforms | undefined;
  /** Judges data by the schemas of the config; without it no type is checked. */
  readonly eventChecks?: EventCheck | undefined;
  /** The place of this node, where the process has several. */
  readonly thread?: ThreadPlace | undefined;
}

/** Every part of the path, its ports included. */
export interface DeliveryPath extends PathPorts {
  readonly catalogue: Catalogue;
  readonly auditTrail: AuditTrail;
  readonly subscriptionCache: SubscriptionCache & Disposable;
  /** Reports damaged records of subscriptions. */
  readonly damaged: Told;
  readonly recipients: Recipients;
  readonly eventCache: EventCache;
  /** All observers as one. */
  readonly observer: Observers;
  readonly liveFeed: LiveFeed;
  readonly statsCollector: StatsCollector;
  readonly publisher: Publisher;
  readonly transportOf: TransportChoice<Transport>;
  readonly signer: Signer;
  readonly send: Send;
  readonly inFlight: InFlight;
  readonly transforming: Transforming;
  readonly testEvent: SendTestEvent;
  readonly cluster: ClusterMessages;
  readonly endings: Endings;
  readonly subscriptions: Subscriptions;
  readonly slots: Slots;
  readonly retryAfter: RetryAfter;
  readonly away: Away;
  readonly rateLimit: RateLimit;
  readonly circuitBreaker: CircuitBreaker;
  readonly statsQuery: StatsQuery;
  /** Makes the attempts of a delivery. */
  readonly deliver: Deliver;
  /** Writes a page of a wide event's deliveries. */
  readonly expand: Deliver;
  readonly dispatcher: Dispatcher;
  readonly sweeper: Sweeper;
  /** Keeps the subscriptions that the config names for the operator. */
  readonly notifyTargets: NotifyTargets;
  /** Finds what only a look from time to time shows, and reports it. */
  readonly noticeWatch: NoticeWatch;
  readonly history: History;
  readonly attemptHistory: AttemptHistory;
  readonly attemptSearch: AttemptSearch;
  readonly replay: Replay;
  readonly pendingDeliveries: PendingDeliveries;
  readonly replayJob: ReplayJob;
  readonly retention: Retention;
  readonly eventErasure: EventErasure;
  readonly keyErasure: KeyErasure;
}
