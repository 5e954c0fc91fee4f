/** Composes the delivery path from top to bottom: each part from those above it, from accepting an event to removing it. */
import { createAway } from "../../deliver/away.ts";
import { createCircuitBreaker } from "../../deliver/circuit-breaker.ts";
import { createDeliveries } from "../../deliver/delivery.ts";
import { createDispatcher } from "../../deliver/dispatcher.ts";
import { createEventCache } from "../../deliver/event-cache.ts";
import { createExpand } from "../../deliver/expand-fanout.ts";
import { failureEvent } from "../../deliver/failure-event.ts";
import { createGates } from "../../deliver/gates.ts";
import { createHandOver } from "../../deliver/hand-over.ts";
import { createRateLimit } from "../../deliver/rate-limit.ts";
import { createInFlight, createSend } from "../../deliver/send.ts";
import { createSlots } from "../../deliver/slots.ts";
import { createSweeper } from "../../deliver/sweeper.ts";
import { createTestEvent } from "../../deliver/test-event.ts";
import { createAttemptSearch } from "../../history/attempt-search.ts";
import { createAttemptHistory } from "../../history/attempts.ts";
import { createHistory } from "../../history/events.ts";
import { createFeed } from "../../history/live-feed.ts";
import { SUBSCRIPTION } from "../../model/schema.ts";
import { seldom } from "../../lib/seldom.ts";
import { createNotices } from "../../notify/notices.ts";
import { createOperational } from "../../notify/operational.ts";
import { createNotifyTargets } from "../../notify/targets.ts";
import { createNoticeWatch } from "../../notify/watch.ts";
import type { Metrics } from "../../ports/plugin.ts";
import { createPublisher } from "../../publish/accept.ts";
import { createBalance } from "../../publish/balance.ts";
import { auditChange, createAuditTrail } from "../../records/audit-trail.ts";
import { createDamageReport } from "../../records/damage.ts";
import { createDeliveryReader } from "../../records/delivery-view.ts";
import { createEndings } from "../../records/endings.ts";
import { erasedAmong } from "../../records/erased-id.ts";
import { createRecipients } from "../../records/recipients.ts";
import { countWaiting } from "../../records/sequence-rows.ts";
import { createSubscriptionCache } from "../../records/subscription-cache.ts";
import { createWideStatus } from "../../records/wide-status.ts";
import { createPendingDeliveries, type PendingDeliveries } from "../../replay/pending.ts";
import { createReplay, type Replay } from "../../replay/replay.ts";
import { createReplayJob } from "../../replay/replay-job.ts";
import { createEndTurns } from "../../retention/end-turns.ts";
import { createEventErasure } from "../../retention/erase-event.ts";
import { createKeyErasure } from "../../retention/erase-key.ts";
import { createWideRemoval } from "../../retention/remove-wide.ts";
import { createRetention } from "../../retention/retention.ts";
import { Signer } from "../../signing/signer.ts";
import { createStatsCollector } from "../../stats/collect.ts";
import { createStatsQuery } from "../../stats/query.ts";
import { checkUrl, takesCredentials } from "../../subscriptions/check-url.ts";
import { ALL_EVENTS, createClusterMessages, type ClusterActions } from "../../subscriptions/cluster-messages.ts";
import { createSubscriptions } from "../../subscriptions/subscriptions.ts";
import { createEventChecks } from "../event-types/event-checks.ts";
import { transforming as createTransforming } from "../transforms/transforms.ts";
import { acceptedBy, attemptedBy, refusedBy, wrapped } from "./observers.ts";
import { portsOf, type GivenPorts, type PathPorts } from "./ports.ts";
import { createCatalogue } from "./reload.ts";

/** Waits that one node holds at once; beyond it they go back to the queue. */
const MOST_HELD = 1_000;
/** How long a rotation waits for attempts that the old secret alone has signed, ms. */
const ROTATION_MS = 2_000;

type Published = PathPorts & ReturnType<typeof composePublish>;
type Sent = Published & ReturnType<typeof composeSend>;
type Delivered = Sent & ReturnType<typeof composeDeliver>;
/** Every part of the path by name, its ports included. */
export type DeliveryPath = Delivered & ReturnType<typeof composeRecords>;

/** Builds every part of the path. Nothing runs and nothing is read before a part is started. */
export function composePath(given: GivenPorts): DeliveryPath {
  const ports = portsOf(given);
  const published = { ...ports, ...composePublish(ports) };
  const sent = { ...published, ...composeSend(published) };
  const delivered = { ...sent, ...composeDeliver(sent) };
  const path = { ...delivered, ...composeRecords(delivered) };
  // One arrow leads back up: a changed subscription reaches the parts that were built from the subscriptions.
  path.cluster.setActions(clusterActions(path));
  return path;
}

/** Composes the way from a published event to its stored deliveries. */
function composePublish(ports: PathPorts) {
  const { plan, storage, clock, log, metrics, fanoutBounds } = ports;
  const base = { storage, clock, log, metrics };
  const catalogue = createCatalogue(plan, ports.eventChecks, (types) => createEventChecks(types, base), log);
  const auditTrail = createAuditTrail(base);
  const damaged = createDamageReport(base);
  const subscriptionCache = createSubscriptionCache(storage, damaged);
  const recipients = createRecipients(storage);
  const eventCache = createEventCache(storage);
  const handOver = createHandOver({ queue: storage.queue, eventCache });
  const liveFeed = createFeed(clock);
  storage.watch((keys) => {
    // What is erased leaves the cache, whichever node erased it.
    const erased = erasedAmong(keys);
    for (const ordinal of erased === "all" ? [undefined] : erased) eventCache.forget(ordinal);
    for (const key of keys) {
      if (!SUBSCRIPTION.has(key)) continue;
      const { keyId, id } = SUBSCRIPTION.id(key);
      liveFeed.changed(keyId, id);
    }
  });
  const waitingInAll = seldom(() => countWaiting(storage), clock);
  const statsCollector = createStatsCollector({
    ...base,
    // What waits for its turn counts as pending too, which only ordered subscriptions have.
    async waiting(keyId, id) {
      if (keyId === undefined || id === undefined) return await waitingInAll();
      const ordered = (await subscriptionCache.get(keyId, id))?.ordered === true;
      return ordered ? await countWaiting(storage, keyId, id) : 0;
    },
  });
  const hearers = { liveFeed, statsCollector, observers: ports.observers };
  const { queue } = storage;
  // A hold that cannot be lifted ends by itself.
  const lift = (id: string): void => void queue.hold(id, 0).catch(() => undefined);
  const { concurrency: total, perSubscription } = plan.delivery;
  const slots = createSlots({ total, perSubscription, clock, lift });
  const balance = createBalance({
    ...{ clock, metrics, queue },
    isQuick(id, keyId) {
      const known = slots.isQuick(id) ? subscriptionCache.of(keyId) : [];
      // What has a rate of its own waits for that.
      return !(known instanceof Promise) && known.some((sub) => sub.id === id && sub.rateLimit === undefined);
    },
  });
  const publisher = createPublisher({
    ...base,
    subscriptionCache,
    catalogue,
    maxPending: plan.intake.maxPending,
    maxPendingPerKey: plan.intake.maxPendingPerKey,
    reserveBytes: plan.intake.reserveBytes,
    fanout: fanoutBounds,
    handOver,
    balance,
    accepted: acceptedBy(hearers),
    filtered: statsCollector.filtered,
    failed: statsCollector.failed,
  });
  const one = publisher.prepare;
  const operational = createOperational({ storage, one });
  const notices = createNotices({ storage, clock, log, one });
  const read = { catalogue, subscriptionCache, damaged, recipients, eventCache };
  const told = { operational, notices };
  const served = { slots, balance, handOver };
  return { ...read, ...told, ...served, auditTrail, liveFeed, statsCollector, publisher, refused: refusedBy(hearers) };
}

/** Composes the sending of signed requests, and the subscriptions, whose changes wait for those under way. */
function composeSend(above: Published) {
  const { plan, storage, clock, log, metrics, keys, transports, transportOf, transforms } = above;
  const { catalogue, subscriptionCache, recipients, statsCollector, notices, damaged } = above;
  const repeated = plan.signature.headers;
  const signer = new Signer({ keys, clock }, { ed25519: above.webhookKeys, repeated }, damaged);
  const bare = createSend({ transportOf, signer, clock, timeoutMs: plan.delivery.timeoutMs, hide: above.hide });
  const outermost = wrapped(above.observers, (one) => one.wrapSend, bare);
  const inFlight = createInFlight(outermost, clock);
  const { send } = inFlight;
  const transform = createTransforming(transforms, clock);
  const testEvent = createTestEvent({ send, subscriptionCache, transform, clock });
  const cluster = createClusterMessages(storage.nodes, log);
  const endings = createEndings({ storage, recipients, statsCollector, log, metrics });
  const subscriptions = createSubscriptions({
    ...{ storage, clock, metrics, keys, endings, repeated },
    registerUrl: checkUrl(transports, above.guard, above.hide),
    takesCredentials: takesCredentials(transports),
    retry: plan.retry,
    perKey: plan.subscriptions.perKey,
    events: () => catalogue.events,
    transforms: () => transforms?.names() ?? [],
    abort: (id) => cluster.ask("stop", id),
    drain: (id) => cluster.announce("quiet", id),
    revive: (id) => cluster.announce("revive", id),
    known: (id) => cluster.announce("known", id),
    notice: notices.prepare,
  });
  return { signer, inFlight, transform, testEvent, cluster, endings, subscriptions };
}

/** Composes the way from a due delivery to its stored outcome. */
function composeDeliver(above: Sent) {
  const { plan, storage, clock, log, metrics, transportOf, eventCache, recipients, subscriptionCache } = above;
  const { handOver, operational, notices, statsCollector, inFlight, transform, cluster, endings, subscriptions } =
    above;
  const { slots, balance } = above;
  const base = { storage, clock, log, metrics };
  const { queue } = storage;
  const { holdMs } = plan.delivery;
  const gates = createGates(clock);
  const away = createAway({ transportOf, gates, queue, clock, log, metrics });
  const circuitBreaker = createCircuitBreaker({
    ...base,
    gates,
    options: plan.health,
    disable: (keyId, id, because) => subscriptions.disable(keyId, id, "endpoint_failing", because),
    commitWith: notices.commitWith,
  });
  const figures = { collector: statsCollector, health: circuitBreaker };
  const statsQuery = createStatsQuery({ storage, clock, subscriptionCache, ...figures });
  const deliver = createDeliveries({
    ...{ ...base, recipients, subscriptionCache, eventCache, slots, gates, away, transform },
    send: inFlight.send,
    random: Math.random,
    retry: plan.retry,
    holdMs,
    mostHeld: MOST_HELD,
    gone: (keyId, id, type) => subscriptions.disable(keyId, id, "endpoint_gone", type),
    rateLimit: createRateLimit(clock).admit,
    circuitBreaker,
    began: balance.began,
    attempted: attemptedBy(above),
    failed: statsCollector.failed,
    failureEvent: failureEvent({ operational, notices }),
    // Not waited for: the queue's own pause, which the attempt sets, holds on all nodes until they know of this one.
    retryAfter: (id, ms) => void cluster.announce("pause", id, ms),
  });
  const expand = createExpand({
    ...{ ...base, eventCache, recipients },
    page: above.fanoutBounds.page,
    written: statsCollector.matched,
    failed: statsCollector.failed,
  });
  const dispatcher = createDispatcher({
    ...{ queue, handOver, deliver, expand, slots, perSubscription: slots.perSubscription, clock, log },
  });
  const sweeper = createSweeper({ storage, endings, clock, log });
  return { gates, away, circuitBreaker, statsQuery, dispatcher, sweeper };
}

/** Composes the reading, replay and removal of stored events, and the reports on the state of the relay. */
function composeRecords(above: Sent) {
  const { plan, storage, clock, log, metrics, subscriptionCache, recipients } = above;
  const { endings, subscriptions, cluster } = above;
  const records = { storage, clock, subscriptionCache, recipients };
  const replay = createReplay({ ...records, endings });
  const pending = createPendingDeliveries(records);
  const wide = createWideRemoval({
    storage,
    wideStatus: createWideStatus({ storage, recipients, read: createDeliveryReader(records) }),
    due: (lines) => storage.queue.add(lines),
  });
  const cancel: Parameters<typeof createEndTurns>[0]["cancel"] = (...which) => pending.cancel(...which, []);
  const endTurns = createEndTurns({ storage, subscriptionCache, clock, cancel });
  const eventErasure = createEventErasure({
    ...{ storage, clock, log, wide, endTurns },
    forget: (ordinal) => cluster.announce("erased", ordinal),
  });
  const keyErasure = createKeyErasure({
    ...{ storage, clock, log, wide },
    events: eventErasure,
    removeSubscription: subscriptions.remove,
    forgetAll: () => cluster.announce("erased", ALL_EVENTS),
    audit: (keyId, actor, line) => auditChange(keyId, actor, clock, line),
  });
  const rules = (plan.jobs ?? []).filter((job) => job.name === "retention");
  const base = { storage, clock, log };
  return {
    history: createHistory(records),
    attemptHistory: createAttemptHistory(records),
    attemptSearch: createAttemptSearch(records),
    replay: countedReplay(replay, metrics, "api"),
    pendingDeliveries: countedPending(pending, metrics),
    replayJob: createReplayJob({ ...records, replay: countedReplay(replay, metrics, "job") }),
    eventErasure,
    keyErasure,
    retention: createRetention({ ...records, log, metrics, rules }),
    /** Finds what only a look from time to time shows, and reports it. */
    noticeWatch: createNoticeWatch({
      ...{ ...base, subscriptionCache, notices: above.notices },
      bounds: plan.notify,
    }),
    /** Keeps the subscriptions that the config names for the operator. */
    notifyTargets: createNotifyTargets({ ...base, subscriptions, targets: plan.notify.to }),
  };
}

/** Counts the deliveries that a replay moves, by who asked for it. */
function countedReplay(replay: Replay, metrics: Metrics, by: "api" | "job"): Replay {
  const count = (moved: number): void => {
    if (moved > 0) metrics.count("deliveries_replayed", { by }, moved);
  };
  return {
    async event(keyId, eventId, options) {
      const moved = await replay.event(keyId, eventId, options);
      count(moved);
      return moved;
    },
    async failed(options) {
      const result = await replay.failed(options);
      count(result.replayed);
      return result;
    },
  };
}

const countedPending = (pending: PendingDeliveries, metrics: Metrics): PendingDeliveries => ({
  tryNow: pending.tryNow,
  async cancel(...args) {
    await pending.cancel(...args);
    metrics.count("deliveries", { outcome: "cancelled" });
  },
});

/** Acts on this node when a subscription changes, its receiver asks for a pause or an event is erased, on any node. */
function clusterActions(path: Delivered): ClusterActions {
  const { eventCache, signer, inFlight, dispatcher, testEvent, transports, gates, circuitBreaker, log } = path;
  return {
    quiet(id) {
      signer.rotated(id);
      return inFlight.drain(id, ROTATION_MS);
    },
    async stop(id) {
      await Promise.all([dispatcher.abort(id), testEvent.abort(id)]);
      for (const transport of transports) transport.forget?.(id);
      // The subscription is deleted even when this cannot be stored now.
      await circuitBreaker.forget(id).catch((error: unknown) =>
        log.warn("the stored health of a deleted subscription was not removed", {
          subscriptionId: id,
          error: String(error),
        }),
      );
    },
    revive: circuitBreaker.forget,
    probe: circuitBreaker.probe,
    pause: async (id, ms) => gates.pause(id, "retry_after", ms),
    async erased(ordinal) {
      eventCache.forget(ordinal === ALL_EVENTS ? undefined : ordinal);
    },
  };
}
