/** The path, composed: which room is built from which. Read it downwards. */
import { createTrail, type Trail } from "../../records/audit-trail.ts";
import { createDeliver, type Deliver } from "../../deliver/deliveries.ts";
import type { Seen } from "../../deliver/report.ts";
import { createDirectory, type Directory } from "../../records/subscription-cache.ts";
import { createFeed, type LiveFeed } from "../../history/live-feed.ts";
import { failureNotice } from "../../deliver/failure-event.ts";
import { createPing, type Ping } from "../../deliver/test-event.ts";
import type { FanoutBounds } from "../../publish/write-event.ts";
import { createDispatcher, type Dispatcher } from "../../deliver/dispatcher.ts";
import { createFigures, type Figures } from "../../stats/collect.ts";
import { createHealth, type Health } from "../../deliver/circuit-breaker.ts";
import type { History } from "../../history/events.ts";
import { createHotEvents, type HotEvents } from "../../deliver/event-cache.ts";
import { createIntake, type Intake } from "../../publish/accept.ts";
import { createOthers, type Acts, type Others } from "../../subscriptions/cluster-messages.ts";
import { createPacing, type Pacing } from "../../deliver/rate-limit.ts";
import { registerUrl } from "../../subscriptions/check-url.ts";
import type { Replay } from "../../replay/replay.ts";
import type { ReplayJob } from "../../replay/replay-job.ts";
import { createRests, type Rests } from "../../deliver/retry-after.ts";
import type { Retention } from "../../retention/retention.ts";
import { createSend, type Send } from "../../deliver/send.ts";
import { createSlots, type Slots } from "../../deliver/slots.ts";
import { createSubscriptions, type Subscriptions } from "../../subscriptions/subscriptions.ts";
import { createStats, type Stats } from "../../stats/query.ts";
import { createSweeper, type Sweeper } from "../../deliver/sweeper.ts";
import { createWire, type Wire } from "../../deliver/in-flight.ts";
import type { Guard } from "../../guard/index.ts";
import { parseSubscriptionKey } from "../../model/keys.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys, Log, Metrics } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Transport } from "../../ports/transport.ts";
import { createSigner, type Signer } from "../../signing/signer.ts";
import { BOUNDS, furnishFanout, RECIPIENTS, slotsWithFanouts, work } from "./fanout.ts";
import type { Plan } from "../../ports/plan.ts";
import { CATALOGUE, createCatalogue } from "./reload.ts";
import { furnishReplaying } from "./replay.ts";
import { noTelemetry, TELEMETRY } from "./telemetry.ts";
import { token, type Get, type House } from "./container.ts";

/** Waits that one node holds at once; beyond it they go back to the queue. */
const MOST_HELD = 1_000;

/** How long a rotation waits for attempts that the old secret alone has signed, ms. */
const ROTATION_MS = 2_000;

/** What exists before the path: opened ports and surroundings. */
export const PLAN = token<Plan>("plan");
export const CLOCK = token<Clock>("clock");
export const LOG = token<Log>("log");
export const METRICS = token<Metrics>("metrics");
export const KEYS = token<Keys>("keys");
export const GUARD = token<Guard>("guard");
export const STORAGE = token<Storage>("storage");
export const TRANSPORTS = token<readonly Transport[]>("transports");

export const TRAIL = token<Trail>("trail");
export const DIRECTORY = token<Directory & Disposable>("directory");
export const HOT = token<HotEvents>("hot");
export const INTAKE = token<Intake>("intake");
export const SIGNER = token<Signer>("signer");
export const SEND = token<Send>("send");
export const WIRE = token<Wire>("wire");
export const PING = token<Ping>("ping");
export const FEED = token<LiveFeed>("feed");
export const FIGURES = token<Figures>("figures");
export const STATS = token<Stats>("stats");
export const SLOTS = token<Slots>("slots");
export const HEALTH = token<Health>("health");
export const RESTS = token<Rests>("rests");
export const PACING = token<Pacing>("pacing");
export const DELIVER = token<Deliver>("deliver");
export const DISPATCHER = token<Dispatcher>("dispatcher");
export const SUBSCRIPTIONS = token<Subscriptions>("subscriptions");
export const HISTORY = token<History>("history");
export const REPLAY = token<Replay>("replay");
export const REPLAY_JOB = token<ReplayJob>("replay job");
export const RETENTION = token<Retention>("retention");
export const SWEEPER = token<Sweeper>("sweeper");
export const OTHERS = token<Others>("other nodes");

/** What this node does of its own when a subscription changes, here or on another node. */
export const actsOf = (get: Get): Acts => ({
  quiet: (id) => get(WIRE).quiet(id, ROTATION_MS),
  async stop(id) {
    await Promise.all([get(DISPATCHER).abort(id), get(PING).abort(id)]);
    for (const transport of get(TRANSPORTS)) transport.forget?.(id);
    get(RESTS).forget(id);
    // It is deleted all the same when this cannot be stored now.
    await get(HEALTH)
      .forget(id)
      .catch((error: unknown) =>
        get(LOG).warn("health was not forgotten", { subscriptionId: id, error: String(error) }),
      );
  },
  async revive(id) {
    get(RESTS).forget(id);
    await get(HEALTH).forget(id);
  },
  probe: (id) => get(HEALTH).probe(id),
});

const telling = (get: Get): readonly Seen[] => {
  const { tracing } = get(TELEMETRY);
  return tracing === undefined ? [] : [tracing.seen];
};

/** Asked of the others and done here at once; resolves when both are done. */
const both =
  (others: (id: string) => Promise<void>, here: (id: string) => Promise<unknown>) =>
  async (id: string): Promise<void> => {
    await Promise.all([others(id), here(id)]);
  };

export function furnishPath(house: House, bounds?: FanoutBounds): void {
  const base = () => ({
    storage: house.get(STORAGE),
    clock: house.get(CLOCK),
    log: house.get(LOG),
    metrics: house.get(METRICS),
  });

  furnishFanout(house, bounds);
  house.make(CATALOGUE, (get) => createCatalogue(get(PLAN).events));
  house.make(TRAIL, () => createTrail(base()));
  house.make(DIRECTORY, (get) => createDirectory(get(STORAGE)));
  house.make(HOT, (get) => createHotEvents(get(STORAGE)));
  house.make(INTAKE, (get) => {
    const [hot, feed, figures] = [get(HOT), get(FEED), get(FIGURES)];
    return createIntake({
      ...base(),
      directory: get(DIRECTORY),
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

  house.make(FEED, (get) => {
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
      clock: get(CLOCK),
      timeoutMs: get(PLAN).delivery.timeoutMs,
    });
    return get(TELEMETRY).tracing?.send(send) ?? send;
  });
  house.make(WIRE, (get) => createWire(get(SEND), get(CLOCK)));
  house.make(PING, (get) => createPing({ send: get(WIRE).send, directory: get(DIRECTORY), clock: get(CLOCK) }));
  house.make(FIGURES, (get) => createFigures({ storage: get(STORAGE), clock: get(CLOCK), log: get(LOG) }));
  house.make(STATS, (get) =>
    createStats({
      figures: get(FIGURES),
      storage: get(STORAGE),
      directory: get(DIRECTORY),
      health: get(HEALTH),
      clock: get(CLOCK),
    }),
  );
  house.make(SLOTS, (get) => {
    const { queue } = get(STORAGE);
    const { concurrency, perSubscription } = get(PLAN).delivery;
    // Not lifted, a hold ends by itself.
    const lift = (id: string): void => void queue.hold(id, 0).catch(() => undefined);
    return createSlots({ total: concurrency, perSubscription, clock: get(CLOCK), lift });
  });
  house.make(RESTS, (get) => createRests(get(CLOCK)));
  house.make(PACING, () => createPacing());
  // Health disables through the subscriptions, which revive it: each is asked for only when the other needs it.
  house.make(HEALTH, (get) =>
    createHealth({
      ...base(),
      options: get(PLAN).health,
      disable: (keyId, id) => get(SUBSCRIPTIONS).disable(keyId, id, "endpoint_failing"),
    }),
  );
  house.make(DELIVER, (get) =>
    createDeliver({
      ...base(),
      directory: get(DIRECTORY),
      recipients: get(RECIPIENTS),
      hot: get(HOT),
      send: get(WIRE).send,
      slots: get(SLOTS),
      random: Math.random,
      retry: get(PLAN).retry,
      holdMs: get(PLAN).delivery.holdMs,
      mostHeld: MOST_HELD,
      gone: (keyId, id, type) => get(SUBSCRIPTIONS).disable(keyId, id, "endpoint_gone", type),
      // The breaker's takes what it lets through for its probe: it is asked after the receiver's own word.
      gates: [get(RESTS).admit, get(HEALTH).admit, get(PACING).admit],
      left: get(HEALTH).left,
      seen: [get(HEALTH).seen, get(FEED).seen, get(FIGURES).seen, ...telling(get)],
      notice: failureNotice(get(INTAKE)),
      rests: get(RESTS).note,
    }),
  );
  house.make(DISPATCHER, (get) =>
    createDispatcher({
      queue: get(STORAGE).queue,
      slots: slotsWithFanouts(get),
      perSubscription: get(PLAN).delivery.perSubscription,
      deliver: work(get),
      clock: get(CLOCK),
      log: get(LOG),
    }),
  );
  house.make(SWEEPER, () => createSweeper(base()));
  house.make(OTHERS, (get) => createOthers(get(STORAGE).nodes, get(LOG)));

  house.make(SUBSCRIPTIONS, (get) =>
    createSubscriptions({
      ...base(),
      keys: get(KEYS),
      registerUrl: registerUrl(get(TRANSPORTS), get(GUARD)),
      perKey: get(PLAN).subscriptions.perKey,
      events: get(CATALOGUE).now,
      abort: both((id) => get(OTHERS).ask("stop", id), actsOf(get).stop),
      quiet: both((id) => get(OTHERS).tell("quiet", id), actsOf(get).quiet),
      revive: both((id) => get(OTHERS).tell("revive", id), actsOf(get).revive),
      known: (id) => get(OTHERS).tell("known", id),
      notice: get(INTAKE).operational,
    }),
  );
  furnishReplaying(house);
}
