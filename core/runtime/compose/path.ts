/** Composes the delivery path, from accepting an event to removing it. */
import "reflect-metadata";
import { container, instanceCachingFactory } from "tsyringe";
import { AttentionReader } from "../../attention/attention.ts";
import type { Guard } from "../../guard/index.ts";
import { Away } from "../../deliver/away.ts";
import { CircuitBreaker } from "../../deliver/circuit-breaker.ts";
import { createDeliveries } from "../../deliver/delivery.ts";
import { createDispatcher } from "../../deliver/dispatcher.ts";
import { createEventCache } from "../../deliver/event-cache.ts";
import { createExpand } from "../../deliver/expand-fanout.ts";
import { failureEvent } from "../../deliver/failure-event.ts";
import { createGates } from "../../deliver/gates.ts";
import { createHandOver } from "../../deliver/hand-over.ts";
import { createRateLimit } from "../../deliver/rate-limit.ts";
import { createInFlight, createSend } from "../../deliver/send.ts";
import { Slots } from "../../deliver/slots.ts";
import { createSweeper } from "../../deliver/sweeper.ts";
import { createTestEvent } from "../../deliver/test-event.ts";
import { createAttemptSearch } from "../../history/attempt-search.ts";
import { createAttemptHistory } from "../../history/attempts.ts";
import { createHistory } from "../../history/events.ts";
import { createFeed } from "../../history/live-feed.ts";
import { SUBSCRIPTION } from "../../model/schema.ts";
import { seldom } from "../../lib/seldom.ts";
import { Notices } from "../../notify/notices.ts";
import { createOperational } from "../../notify/operational.ts";
import { NotifyTargets } from "../../notify/targets.ts";
import { NoticeWatch } from "../../notify/watch.ts";
import { chooseTransport, type TransportChoice } from "../../model/transport-choice.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Observer } from "../../ports/observer.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Log, Metrics } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import type { EventCheck } from "../../publish/parse-events.ts";
import { FANOUT_BOUNDS, type FanoutBounds } from "../../publish/write-event.ts";
import type { Ed25519Key } from "../../signing/ed25519.ts";
import { createPublisher } from "../../publish/accept.ts";
import { createBalance } from "../../publish/balance.ts";
import { createAuditTrail } from "../../records/audit-trail.ts";
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
import { createRetention } from "../../retention/retention.ts";
import { Signer } from "../../signing/signer.ts";
import { StatsCollector } from "../../stats/collect.ts";
import { createStatsQuery } from "../../stats/query.ts";
import { checkUrl, takesCredentials } from "../../subscriptions/check-url.ts";
import { ALL_EVENTS, createClusterMessages, type ClusterActions } from "../../subscriptions/cluster-messages.ts";
import { createSubscriptions } from "../../subscriptions/subscriptions.ts";
import { createEventChecks } from "../event-types/event-checks.ts";
import { transforming as createTransforming, type Transforms } from "../transforms/transforms.ts";
import { acceptedBy, attemptedBy, refusedBy, wrapped } from "./observers.ts";
import { createCatalogue } from "./reload.ts";

/** Waits that one node holds at once; beyond it they go back to the queue. */
const MOST_HELD = 1_000;
/** How long a rotation waits for attempts that the old secret alone has signed, ms. */
const ROTATION_MS = 2_000;

interface GivenPorts {
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
  readonly observers: readonly Observer[];
  /** Masks secrets in what people see. @default nothing is masked */
  readonly hide?: (text: string) => string;
  readonly fanoutBounds?: FanoutBounds;
  /** Runs the transforms of the config; without it there are none. */
  readonly transforms?: Transforms | undefined;
  /** Judges data by the schemas of the config; without it no type is checked. */
  readonly eventChecks?: EventCheck | undefined;
}

interface PathPorts extends GivenPorts {
  readonly fanoutBounds: FanoutBounds;
  readonly transportOf: TransportChoice<Transport>;
}

/**
 * Registers the ordinary ports in a tsyringe container, then what is given in their place: a relay gives those that it has
 * opened, a test its own. The container never leaves this folder.
 * @returns all of them, each made once
 */
function portsOf(given: GivenPorts): PathPorts {
  const registry = container.createChildContainer();
  const names = new Set<string>();
  function register(name: keyof PathPorts, make: () => unknown): void {
    names.add(name);
    registry.register(name, { useFactory: instanceCachingFactory(make) });
  }
  register("fanoutBounds", () => FANOUT_BOUNDS);
  register("transportOf", () => chooseTransport(registry.resolve<PathPorts["transports"]>("transports")));
  for (const [name, port] of Object.entries(given)) register(name as keyof GivenPorts, () => port);
  return Object.fromEntries([...names].map((name) => [name, registry.resolve(name)])) as unknown as PathPorts;
}

/** Holds the ports of a path under their names. */
const Ports = class {
  constructor(given: GivenPorts) {
    Object.assign(this, portsOf(given));
  }
} as new (given: GivenPorts) => PathPorts;

/**
 * Every part of the path by name, each made from those above it. Nothing runs and nothing is read before a part is started.
 */
class Path extends Ports {
  /** The parts that are there so far, for those that need more beside them. */
  readonly #all: Pick<this, keyof this> = this;

  // From a published event to its stored deliveries.
  readonly queue = this.storage.queue;
  readonly catalogue = createCatalogue(
    this.plan,
    this.eventChecks,
    (types) => createEventChecks(types, this),
    this.log,
  );
  readonly auditTrail = createAuditTrail(this);
  readonly #damaged = createDamageReport(this);
  readonly subscriptionCache = createSubscriptionCache(this.storage, this.#damaged);
  readonly recipients = createRecipients(this.storage);
  readonly eventCache = createEventCache(this.storage);
  readonly handOver = createHandOver(this);
  readonly liveFeed = createFeed(this.clock);
  readonly #waitingInAll = seldom(() => countWaiting(this.storage), this.clock);
  readonly statsCollector = new StatsCollector({
    ...this.#all,
    waiting: (keyId, id) => this.#waiting(keyId, id),
  });
  readonly slots = new Slots({
    total: this.plan.delivery.concurrency,
    perSubscription: this.plan.delivery.perSubscription,
    clock: this.clock,
    // A hold that cannot be lifted ends by itself.
    lift: (id) => void this.queue.hold(id, 0).catch(() => undefined),
  });
  readonly balance = createBalance({ ...this.#all, isQuick: (id, keyId) => this.#isQuick(id, keyId) });
  readonly publisher = createPublisher({
    ...{ ...this.#all, ...this.plan.intake },
    fanout: this.fanoutBounds,
    accepted: acceptedBy(this),
    filtered: this.statsCollector.filtered,
    failed: this.statsCollector.failed,
  });
  readonly refused = refusedBy(this);
  readonly operational = createOperational(this);
  readonly notices = new Notices(this);

  // The sending of signed requests, and the subscriptions, whose changes wait for those under way.
  readonly signer = new Signer(
    this,
    { ed25519: this.webhookKeys, repeated: this.plan.signature.headers },
    this.#damaged,
  );
  readonly inFlight = createInFlight(
    wrapped(
      this.observers,
      (one) => one.wrapSend,
      createSend({ ...this.#all, timeoutMs: this.plan.delivery.timeoutMs }),
    ),
    this.clock,
  );
  readonly send = this.inFlight.send;
  readonly transform = createTransforming(this.transforms, this.clock);
  readonly testEvent = createTestEvent(this);
  readonly cluster = createClusterMessages(this.storage.nodes, this.log);
  readonly endings = createEndings(this);
  readonly subscriptions = createSubscriptions({
    ...this.#all,
    repeated: this.plan.signature.headers,
    registerUrl: checkUrl(this.transports, this.guard, this.hide),
    takesCredentials: takesCredentials(this.transports),
    retry: this.plan.retry,
    perKey: this.plan.subscriptions.perKey,
    events: () => this.catalogue.events,
    transforms: () => this.transforms?.names() ?? [],
    abort: (id) => this.cluster.ask("stop", id),
    drain: (id) => this.cluster.announce("quiet", id),
    revive: (id) => this.cluster.announce("revive", id),
    known: (id) => this.cluster.announce("known", id),
    notice: (notice) => this.notices.prepare(notice),
  });

  // From a due delivery to its stored outcome.
  readonly gates = createGates(this.clock);
  readonly away = new Away(this);
  readonly circuitBreaker = new CircuitBreaker({
    ...this.#all,
    options: this.plan.health,
    disable: (keyId, id, because) => this.subscriptions.disable(keyId, id, "endpoint_failing", because),
    commitWith: (changes, notice) => this.notices.commitWith(changes, notice),
  });
  readonly statsQuery = createStatsQuery({ ...this.#all, collector: this.statsCollector, health: this.circuitBreaker });
  readonly #deliver = createDeliveries({
    ...this.#all,
    random: Math.random,
    retry: this.plan.retry,
    holdMs: this.plan.delivery.holdMs,
    mostHeld: MOST_HELD,
    receiverControl: this.plan.delivery.receiverControl,
    disable: (...about) => this.subscriptions.disable(...about),
    rateLimit: createRateLimit(this.clock).admit,
    began: this.balance.began,
    attempted: attemptedBy(this),
    failed: this.statsCollector.failed,
    failureEvent: failureEvent(this),
    // Not waited for: the queue's own pause, which the attempt sets, holds on all nodes until they know of this one.
    retryAfter: (id, ms) => void this.cluster.announce("pause", id, ms),
  });
  readonly #expand = createExpand({
    ...this.#all,
    page: this.fanoutBounds.page,
    written: this.statsCollector.matched,
    failed: this.statsCollector.failed,
  });
  readonly dispatcher = createDispatcher({
    ...this.#all,
    deliver: this.#deliver,
    expand: this.#expand,
    perSubscription: this.slots.perSubscription,
  });
  readonly sweeper = createSweeper(this);

  // The reading, replay and removal of stored events, and the reports on the state of the relay.
  readonly history = createHistory(this);
  readonly attempts = createAttemptHistory(this);
  readonly searchAttempts = createAttemptSearch(this);
  readonly attention = new AttentionReader(this);
  readonly #replay = createReplay(this);
  readonly replay = countedReplay(this.#replay, this.metrics, "api");
  readonly replayJob = createReplayJob({ ...this.#all, replay: countedReplay(this.#replay, this.metrics, "job") });
  readonly #pending = createPendingDeliveries(this);
  readonly pending = countedPending(this.#pending, this.metrics);
  readonly eventErasure = createEventErasure({
    ...this.#all,
    endTurns: createEndTurns({
      ...this.#all,
      cancel: (keyId, eventId, id) => this.#pending.cancel(keyId, eventId, id, []),
    }),
    forget: (ordinal) => this.cluster.announce("erased", ordinal),
  });
  readonly keyErasure = createKeyErasure({
    ...this.#all,
    events: this.eventErasure,
    removeSubscription: this.subscriptions.remove,
    forgetAll: () => this.cluster.announce("erased", ALL_EVENTS),
  });
  readonly rules = (this.plan.jobs ?? []).filter((job) => job.name === "retention");
  readonly wideStatus = createWideStatus({ ...this.#all, read: createDeliveryReader(this) });
  readonly retention = createRetention(this);
  readonly noticeWatch = new NoticeWatch(this);
  readonly notifyTargets = new NotifyTargets(this);

  constructor(given: GivenPorts) {
    super(given);
    this.storage.watch((keys) => this.#changed(keys));
    // One arrow leads back up: a changed subscription reaches the parts that were built from the subscriptions.
    this.cluster.setActions(clusterActions(this));
  }

  /** Counts the deliveries that wait for their turn, which only ordered subscriptions have: they count as pending too. */
  async #waiting(keyId: string | undefined, id: string | undefined): Promise<number> {
    if (keyId === undefined || id === undefined) return await this.#waitingInAll();
    const ordered = (await this.subscriptionCache.get(keyId, id))?.ordered === true;
    return ordered ? await countWaiting(this.storage, keyId, id) : 0;
  }

  #isQuick(id: string, keyId: string): boolean {
    const known = this.slots.isQuick(id) ? this.subscriptionCache.of(keyId) : [];
    // A subscription with a rate of its own waits for that.
    return !(known instanceof Promise) && known.some((sub) => sub.id === id && sub.rateLimit === undefined);
  }

  /** Drops what is erased from the cache, whichever node erased it, and passes changes of subscriptions on to the feed. */
  #changed(keys: readonly string[]): void {
    const erased = erasedAmong(keys);
    for (const ordinal of erased === "all" ? [undefined] : erased) this.eventCache.forget(ordinal);
    for (const key of keys) {
      if (!SUBSCRIPTION.has(key)) continue;
      const { keyId, id } = SUBSCRIPTION.id(key);
      this.liveFeed.changed(keyId, id);
    }
  }
}

/** Every part by name. */
export type DeliveryPath = Pick<Path, keyof Path>;
export const composePath = (given: GivenPorts): DeliveryPath => new Path(given);

/** Counts the deliveries that a replay moves, by who asked for it. */
function countedReplay(replay: Replay, metrics: Metrics, by: "api" | "job"): Replay {
  const count = (moved: number): number => {
    if (moved > 0) metrics.count("deliveries_replayed", { by }, moved);
    return moved;
  };
  return {
    event: async (...args) => count(await replay.event(...args)),
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
function clusterActions(path: Path): ClusterActions {
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
    revive: (id) => circuitBreaker.forget(id),
    probe: (id) => circuitBreaker.probe(id),
    pause: async (id, ms) => gates.pause(id, "retry_after", ms),
    async erased(ordinal) {
      eventCache.forget(ordinal === ALL_EVENTS ? undefined : ordinal);
    },
  };
}
