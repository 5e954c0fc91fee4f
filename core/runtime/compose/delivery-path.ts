/** The path, composed: which room is built from which. Read it downwards. */
import { createAuditTrail, type AuditTrail } from "../../records/audit-trail.ts";
import { createDeliveries, type Deliver } from "../../deliver/deliveries.ts";
import type { AttemptObserver } from "../../ports/observer.ts";
import { createSubscriptionCache, type SubscriptionCache } from "../../records/subscription-cache.ts";
import { createFeed, type LiveFeed } from "../../history/live-feed.ts";
import { failureEvent } from "../../deliver/failure-event.ts";
import { createTestEvent, type SendTestEvent } from "../../deliver/test-event.ts";
import type { FanoutBounds } from "../../publish/write-event.ts";
import { createDispatcher, type Dispatcher } from "../../deliver/dispatcher.ts";
import { createStatsCollector, type StatsCollector } from "../../stats/collect.ts";
import { createCircuitBreaker, type CircuitBreaker } from "../../deliver/circuit-breaker.ts";
import type { History } from "../../history/events.ts";
import { createEventCache, type EventCache } from "../../deliver/event-cache.ts";
import { createPublisher, type Publisher } from "../../publish/accept.ts";
import { createClusterMessages, type ClusterMessages } from "../../subscriptions/cluster-messages.ts";
import { createRateLimit, type RateLimit } from "../../deliver/rate-limit.ts";
import { checkUrl } from "../../subscriptions/check-url.ts";
import type { Replay } from "../../replay/replay.ts";
import type { ReplayJob } from "../../replay/replay-job.ts";
import { createRetryAfter, type RetryAfter } from "../../deliver/retry-after.ts";
import type { Retention } from "../../retention/retention.ts";
import { createSend, type Send } from "../../deliver/send.ts";
import { createSlots, type Slots } from "../../deliver/slots.ts";
import { createSubscriptions, type Subscriptions } from "../../subscriptions/subscriptions.ts";
import { createStatsQuery, type StatsQuery } from "../../stats/query.ts";
import { createSweeper, type Sweeper } from "../../deliver/sweeper.ts";
import { createInFlight, type InFlight } from "../../deliver/in-flight.ts";
import type { Guard } from "../../guard/index.ts";
import { parseSubscriptionKey } from "../../model/keys.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys, Log, Metrics } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import { createSigner, type Signer } from "../../signing/signer.ts";
import { BOUNDS, registerFanout, RECIPIENTS, slotsWithFanouts, work } from "./fanout.ts";
import type { Plan } from "../../ports/plan.ts";
import { CATALOGUE, createCatalogue } from "./reload.ts";
import { registerReplay } from "./replay.ts";
import { noTelemetry, TELEMETRY } from "./telemetry.ts";
import { both, clusterActions } from "./cluster.ts";
import { token, type Get, type Container } from "./container.ts";

/** Waits that one node holds at once; beyond it they go back to the queue. */
const MOST_HELD = 1_000;

/** What exists before the path: opened ports and surroundings. */
export const PLAN = token<Plan>("plan");
export const CLOCK_TOKEN = token<Clock>("clock");
export const LOG = token<Log>("log");
export const METRICS = token<Metrics>("metrics");
export const KEYS = token<Keys>("keys");
export const OUTBOUND_GUARD = token<Guard>("guard");
export const STORAGE = token<Storage>("storage");
export const TRANSPORTS = token<readonly Transport[]>("transports");

export const AUDIT_TRAIL = token<AuditTrail>("trail");
export const SUBSCRIPTION_CACHE = token<SubscriptionCache & Disposable>("directory");
export const EVENT_CACHE = token<EventCache>("hot");
export const ACCEPT = token<Publisher>("intake");
export const SIGNER = token<Signer>("signer");
export const SEND = token<Send>("send");
export const IN_FLIGHT = token<InFlight>("wire");
export const TEST_EVENT = token<SendTestEvent>("ping");
export const LIVE_FEED = token<LiveFeed>("feed");
export const STATS_COLLECTOR = token<StatsCollector>("figures");
export const STATS_QUERY = token<StatsQuery>("stats");
export const SLOTS = token<Slots>("slots");
export const CIRCUIT_BREAKER = token<CircuitBreaker>("health");
export const RETRY_AFTER = token<RetryAfter>("rests");
export const RATE_LIMIT = token<RateLimit>("pacing");
export const DELIVERIES = token<Deliver>("deliver");
export const DISPATCHER = token<Dispatcher>("dispatcher");
export const SUBSCRIPTIONS = token<Subscriptions>("subscriptions");
export const HISTORY = token<History>("history");
export const REPLAY = token<Replay>("replay");
export const REPLAY_JOB = token<ReplayJob>("replay job");
export const RETENTION = token<Retention>("retention");
export const SWEEPER = token<Sweeper>("sweeper");
export const CLUSTER = token<ClusterMessages>("other nodes");

const telling = (get: Get): readonly AttemptObserver[] => {
  const { tracing } = get(TELEMETRY);
  return tracing === undefined ? [] : [tracing.seen];
};

export function registerPath(house: Container, bounds?: FanoutBounds): void {
  const base = () => ({
    storage: house.get(STORAGE),
    clock: house.get(CLOCK_TOKEN),
    log: house.get(LOG),
    metrics: house.get(METRICS),
  });

  registerFanout(house, bounds);
  house.make(CATALOGUE, (get) => createCatalogue(get(PLAN).events));
  house.make(AUDIT_TRAIL, () => createAuditTrail(base()));
  house.make(SUBSCRIPTION_CACHE, (get) => createSubscriptionCache(get(STORAGE)));
  house.make(EVENT_CACHE, (get) => createEventCache(get(STORAGE)));
  house.make(ACCEPT, (get) => {
    const [hot, feed, figures] = [get(EVENT_CACHE), get(LIVE_FEED), get(STATS_COLLECTOR)];
    return createPublisher({
      ...base(),
      directory: get(SUBSCRIPTION_CACHE),
      events: get(CATALOGUE).now,
      maxPending: get(PLAN).intake.maxPending,
      maxPendingPerKey: get(PLAN).intake.maxPendingPerKey,
      reserveBytes: get(PLAN).intake.reserveBytes,
      fanout: get(BOUNDS),
      onAccepted: (event) => {
        hot.put(event);
        feed.accepted(event);
        figures.accepted(event);
      },
    });
  });

  house.make(LIVE_FEED, (get) => {
    const feed = createFeed();
    get(STORAGE).watch((keys) => {
      for (const key of keys) {
        if (!key.startsWith("subscription:")) continue;
        const { keyId, id } = parseSubscriptionKey(key);
        feed.changed(keyId, id);
      }
    });
    return feed;
  });

  house.make(SIGNER, (get) => createSigner(get(KEYS)));
  house.make(TELEMETRY, () => noTelemetry);
  house.make(SEND, (get) => {
    const send = createSend({
      transports: get(TRANSPORTS),
      signer: get(SIGNER),
      clock: get(CLOCK_TOKEN),
      timeoutMs: get(PLAN).delivery.timeoutMs,
    });
    return get(TELEMETRY).tracing?.send(send) ?? send;
  });
  house.make(IN_FLIGHT, (get) => createInFlight(get(SEND), get(CLOCK_TOKEN)));
  house.make(TEST_EVENT, (get) =>
    createTestEvent({ send: get(IN_FLIGHT).send, directory: get(SUBSCRIPTION_CACHE), clock: get(CLOCK_TOKEN) }),
  );
  house.make(STATS_COLLECTOR, (get) =>
    createStatsCollector({ storage: get(STORAGE), clock: get(CLOCK_TOKEN), log: get(LOG) }),
  );
  house.make(STATS_QUERY, (get) =>
    createStatsQuery({
      figures: get(STATS_COLLECTOR),
      storage: get(STORAGE),
      directory: get(SUBSCRIPTION_CACHE),
      health: get(CIRCUIT_BREAKER),
      clock: get(CLOCK_TOKEN),
    }),
  );
  house.make(SLOTS, (get) => {
    const { queue } = get(STORAGE);
    const { concurrency, perSubscription } = get(PLAN).delivery;
    // Not lifted, a hold ends by itself.
    const lift = (id: string): void => void queue.hold(id, 0).catch(() => undefined);
    return createSlots({ total: concurrency, perSubscription, clock: get(CLOCK_TOKEN), lift });
  });
  house.make(RETRY_AFTER, (get) => createRetryAfter(get(CLOCK_TOKEN)));
  house.make(RATE_LIMIT, () => createRateLimit());
  // Health disables through the subscriptions, which revive it: each is asked for only when the other needs it.
  house.make(CIRCUIT_BREAKER, (get) =>
    createCircuitBreaker({
      ...base(),
      options: get(PLAN).health,
      disable: (keyId, id) => get(SUBSCRIPTIONS).disable(keyId, id, "endpoint_failing"),
    }),
  );
  house.make(DELIVERIES, (get) =>
    createDeliveries({
      ...base(),
      directory: get(SUBSCRIPTION_CACHE),
      recipients: get(RECIPIENTS),
      hot: get(EVENT_CACHE),
      send: get(IN_FLIGHT).send,
      slots: get(SLOTS),
      random: Math.random,
      retry: get(PLAN).retry,
      holdMs: get(PLAN).delivery.holdMs,
      mostHeld: MOST_HELD,
      gone: (keyId, id, type) => get(SUBSCRIPTIONS).disable(keyId, id, "endpoint_gone", type),
      // The breaker's takes what it lets through for its probe: it is asked after the receiver's own word.
      gates: [get(RETRY_AFTER).admit, get(CIRCUIT_BREAKER).admit, get(RATE_LIMIT).admit],
      left: get(CIRCUIT_BREAKER).left,
      seen: [get(CIRCUIT_BREAKER).seen, get(LIVE_FEED).seen, get(STATS_COLLECTOR).seen, ...telling(get)],
      notice: failureEvent(get(ACCEPT)),
      rests: get(RETRY_AFTER).note,
    }),
  );
  house.make(DISPATCHER, (get) =>
    createDispatcher({
      queue: get(STORAGE).queue,
      slots: slotsWithFanouts(get),
      perSubscription: get(PLAN).delivery.perSubscription,
      deliver: work(get),
      clock: get(CLOCK_TOKEN),
      log: get(LOG),
    }),
  );
  house.make(SWEEPER, () => createSweeper(base()));
  house.make(CLUSTER, (get) => createClusterMessages(get(STORAGE).nodes, get(LOG)));

  house.make(SUBSCRIPTIONS, (get) =>
    createSubscriptions({
      ...base(),
      keys: get(KEYS),
      registerUrl: checkUrl(get(TRANSPORTS), get(OUTBOUND_GUARD)),
      retry: get(PLAN).retry,
      perKey: get(PLAN).subscriptions.perKey,
      events: get(CATALOGUE).now,
      abort: both((id) => get(CLUSTER).ask("stop", id), clusterActions(get).stop),
      quiet: both((id) => get(CLUSTER).tell("quiet", id), clusterActions(get).quiet),
      revive: both((id) => get(CLUSTER).tell("revive", id), clusterActions(get).revive),
      known: (id) => get(CLUSTER).tell("known", id),
      notice: get(ACCEPT).operational,
    }),
  );
  registerReplay(house);
}
