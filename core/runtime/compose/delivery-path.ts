/** Composes the delivery path: each part from those above it, from accepting an event to sweeping what was left. */
import { createAway } from "../../deliver/away.ts";
import { createCircuitBreaker } from "../../deliver/circuit-breaker.ts";
import { createDeliveries } from "../../deliver/deliveries.ts";
import { createDispatcher } from "../../deliver/dispatcher.ts";
import { createExpand } from "../../deliver/expand-fanout.ts";
import { failureEvent } from "../../deliver/failure-event.ts";
import { withFanouts } from "../../deliver/fanout-slots.ts";
import { createInFlight } from "../../deliver/in-flight.ts";
import { createRateLimit } from "../../deliver/rate-limit.ts";
import { createRetryAfter } from "../../deliver/retry-after.ts";
import { createSend } from "../../deliver/send.ts";
import { transforming } from "../transforms/transforms.ts";
import { createEventChecks } from "../event-types/event-checks.ts";
import { createSlots } from "../../deliver/slots.ts";
import { createSweeper } from "../../deliver/sweeper.ts";
import { createTestEvent } from "../../deliver/test-event.ts";
import { isFanoutQueue } from "../../model/keys.ts";
import { chooseTransport } from "../../model/transport-choice.ts";
import { createPublisher } from "../../publish/accept.ts";
import { createAuditTrail } from "../../records/audit-trail.ts";
import { createEndings } from "../../records/endings.ts";
import { createRecipients } from "../../records/recipients.ts";
import { createDamageReport } from "../../records/damage.ts";
import { createSubscriptionCache } from "../../records/subscription-cache.ts";
import { createSigner } from "../../signing/signer.ts";
import { collectedStats } from "./collected-stats.ts";
import { watchedCache } from "./watched-cache.ts";
import { createStatsQuery } from "../../stats/query.ts";
import { checkUrl, takesCredentials } from "../../subscriptions/check-url.ts";
import { createClusterMessages } from "../../subscriptions/cluster-messages.ts";
import { createSubscriptions } from "../../subscriptions/subscriptions.ts";
import { clusterActions } from "./cluster.ts";
import { createContainer, type Container } from "./container.ts";
import { composeHistory } from "./history.ts";
import { composeNotices } from "./notices.ts";
import { watchedFeed } from "./live-feed.ts";
import type { DeliveryPath, PathPorts } from "./parts.ts";
import { createObservers, wrapped } from "./observers.ts";
import { createCatalogue } from "./reload.ts";

/** Waits that one node holds at once; beyond it they go back to the queue. */
const MOST_HELD = 1_000;

/** Builds every part of the path. Nothing runs and nothing is read before a part is started. */
export function composePath(ports: PathPorts): DeliveryPath {
  const container = createContainer<DeliveryPath>();
  for (const [name, port] of Object.entries({
    webhookKeys: undefined,
    thread: undefined,
    transforms: undefined,
    eventChecks: undefined,
    ...ports,
  }))
    container.put(name as keyof PathPorts, port as never);
  composePublish(container);
  composeSend(container);
  composeDeliver(container);
  composeHistory(container);
  composeNotices(container);
  const path = container.parts();
  // Two arrows lead back up, and both are drawn here. What happens is reported to parts that report to others themselves;
  path.observer.connect([
    { name: "event cache", observer: { accepted: path.eventCache.put } },
    { name: "circuit breaker", observer: path.circuitBreaker },
    { name: "live feed", observer: path.liveFeed },
    { name: "stats", observer: path.statsCollector },
    ...path.observerPlugins,
  ]);
  // and a changed subscription reaches the parts that were built from the subscriptions.
  path.cluster.setActions(clusterActions(path));
  return path;
}

/** From a published event to its stored deliveries. */
function composePublish(container: Container<DeliveryPath>): void {
  container.make("catalogue", ["plan", "eventChecks", "clock", "log", "metrics"], ({ plan, eventChecks, ...around }) =>
    createCatalogue(plan, eventChecks, (types) => createEventChecks(types, around), around.log),
  );
  container.make("auditTrail", ["storage", "clock", "log"], createAuditTrail);
  container.make("damaged", ["log", "metrics"], createDamageReport);
  container.make("subscriptionCache", ["storage", "damaged"], ({ storage, damaged }) =>
    createSubscriptionCache(storage, damaged),
  );
  container.make("recipients", ["storage"], ({ storage }) => createRecipients(storage));
  container.make("eventCache", ["storage"], watchedCache);
  container.make("observer", ["log"], ({ log }) => createObservers(log));
  container.make("liveFeed", ["storage", "clock", "thread"], watchedFeed);
  container.make("statsCollector", ["storage", "clock", "log", "subscriptionCache"], collectedStats);
  container.make(
    "publisher",
    [
      ...(["plan", "storage", "clock", "log", "metrics", "fanoutBounds"] as const),
      ...(["catalogue", "subscriptionCache", "observer", "statsCollector"] as const),
    ],
    ({ plan, fanoutBounds, catalogue, subscriptionCache, observer, statsCollector, ...base }) =>
      createPublisher({
        ...base,
        subscriptionCache,
        events: catalogue.now,
        checks: catalogue.checks,
        maxPending: plan.intake.maxPending,
        maxPendingPerKey: plan.intake.maxPendingPerKey,
        reserveBytes: plan.intake.reserveBytes,
        fanout: fanoutBounds,
        accepted: observer.accepted,
        filtered: statsCollector.filtered,
        failed: statsCollector.failed,
      }),
  );
}

/** One signed request, and what knows of those under way. */
function composeSend(container: Container<DeliveryPath>): void {
  container.make("transportOf", ["transports"], ({ transports }) => chooseTransport(transports));
  container.make(
    "signer",
    ["plan", "keys", "clock", "webhookKeys", "damaged"],
    ({ plan, keys, clock, webhookKeys, damaged }) =>
      createSigner({ keys, clock }, { ed25519: webhookKeys, repeated: plan.signature.headers }, damaged),
  );
  container.make(
    "send",
    ["plan", "clock", "transportOf", "signer", "observerPlugins"],
    ({ plan, clock, transportOf, signer, observerPlugins }) => {
      const send = createSend({ transportOf, signer, clock, timeoutMs: plan.delivery.timeoutMs });
      return wrapped(observerPlugins, (one) => one.wrapSend, send);
    },
  );
  container.make("inFlight", ["send", "clock"], ({ send, clock }) => createInFlight(send, clock));
  container.make("transforming", ["transforms", "clock"], ({ transforms, clock }) => transforming(transforms, clock));
  container.make(
    "testEvent",
    ["inFlight", "subscriptionCache", "transforming", "clock"],
    ({ inFlight, subscriptionCache, transforming: transform, clock }) =>
      createTestEvent({ send: inFlight.send, subscriptionCache, transform, clock }),
  );
  container.make("cluster", ["storage", "log"], ({ storage, log }) => createClusterMessages(storage.nodes, log));
  container.make("endings", ["storage", "recipients", "statsCollector", "log", "metrics"], createEndings);
  container.make(
    "subscriptions",
    [
      ...(["plan", "storage", "clock", "metrics", "keys", "guard", "transports"] as const),
      ...(["catalogue", "publisher", "cluster", "endings", "transforms"] as const),
    ],
    ({ plan, guard, transports, catalogue, publisher, cluster, transforms, ...base }) =>
      createSubscriptions({
        ...base,
        registerUrl: checkUrl(transports, guard),
        takesCredentials: takesCredentials(transports),
        retry: plan.retry,
        perKey: plan.subscriptions.perKey,
        repeated: plan.signature.headers,
        events: catalogue.now,
        transforms: () => transforms?.names() ?? [],
        abort: (id) => cluster.ask("stop", id),
        drain: (id) => cluster.announce("quiet", id),
        revive: (id) => cluster.announce("revive", id),
        known: (id) => cluster.announce("known", id),
        notice: publisher.notices.prepare,
      }),
  );
}

/** From a due delivery to its stored outcome. */
function composeDeliver(container: Container<DeliveryPath>): void {
  container.make("slots", ["plan", "storage", "clock"], ({ plan: { delivery }, storage: { queue }, clock }) => {
    // A hold that cannot be lifted ends by itself.
    const lift = (id: string): void => void queue.hold(id, 0).catch(() => undefined);
    return createSlots({ total: delivery.concurrency, perSubscription: delivery.perSubscription, clock, lift });
  });
  container.make("retryAfter", ["clock"], ({ clock }) => createRetryAfter(clock));
  container.make(
    "away",
    ["transportOf", "storage", "clock", "log", "metrics"],
    ({ transportOf, storage: { queue }, clock, log, metrics }) =>
      createAway({ transportOf, queue, clock, log, metrics }),
  );
  container.make("rateLimit", ["clock", "thread"], ({ clock, thread }) => createRateLimit(clock, thread?.count));
  container.make(
    "circuitBreaker",
    ["plan", "storage", "clock", "log", "metrics", "subscriptions", "publisher"],
    ({ plan, subscriptions, publisher, ...base }) =>
      createCircuitBreaker({
        ...base,
        options: plan.health,
        disable: (keyId, id, because) => subscriptions.disable(keyId, id, "endpoint_failing", because),
        commitWith: publisher.notices.commitWith,
      }),
  );
  container.make(
    "statsQuery",
    ["statsCollector", "storage", "subscriptionCache", "circuitBreaker", "clock"],
    ({ statsCollector: collector, circuitBreaker: health, ...base }) =>
      createStatsQuery({ collector, health, ...base }),
  );
  container.make(
    "deliver",
    [
      ...(["plan", "storage", "clock", "log", "metrics", "recipients", "subscriptionCache"] as const),
      ...(["eventCache", "inFlight", "slots", "subscriptions", "retryAfter", "away", "circuitBreaker"] as const),
      ...(["rateLimit", "observer", "publisher", "transforming", "statsCollector", "cluster"] as const),
    ],
    ({ plan, circuitBreaker, retryAfter, subscriptions, cluster, ...parts }) =>
      createDeliveries({
        ...parts,
        send: parts.inFlight.send,
        transform: parts.transforming,
        random: Math.random,
        retry: plan.retry,
        holdMs: plan.delivery.holdMs,
        mostHeld: MOST_HELD,
        gone: (keyId, id, type) => subscriptions.disable(keyId, id, "endpoint_gone", type),
        // The breaker takes what it lets through for its probe: it comes after the receiver's own Retry-After.
        pauses: [retryAfter.admit, parts.away.admit, circuitBreaker.admit],
        rateLimit: parts.rateLimit.admit,
        left: circuitBreaker.left,
        attempted: parts.observer.attempted,
        failed: parts.statsCollector.failed,
        failureEvent: failureEvent(parts.publisher),
        // Not waited for: the queue's own pause, which the attempt sets, holds on all nodes until they know of this one.
        retryAfter: (id, ms) => void cluster.announce("pause", id, ms),
      }),
  );
  container.make(
    "expand",
    ["storage", "clock", "log", "metrics", "eventCache", "recipients", "fanoutBounds", "statsCollector"],
    ({ fanoutBounds, statsCollector, ...base }) =>
      createExpand({
        ...base,
        page: fanoutBounds.page,
        written: statsCollector.matched,
        failed: statsCollector.failed,
      }),
  );
  container.make(
    "dispatcher",
    ["plan", "storage", "clock", "log", "slots", "deliver", "expand"],
    ({ plan, storage: { queue }, clock, log, slots, deliver, expand }) =>
      createDispatcher({
        queue,
        slots: withFanouts(slots),
        perSubscription: plan.delivery.perSubscription,
        deliver: (lease, ...rest) => (isFanoutQueue(lease.subscriptionId) ? expand : deliver)(lease, ...rest),
        clock,
        log,
      }),
  );
  container.make("sweeper", ["storage", "endings", "clock", "log"], createSweeper);
}
