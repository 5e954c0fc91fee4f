/**
 * The circuit breaker pauses an endpoint that only fails, and disables a subscription that has failed for days.
 *
 * It moves due times and nothing else: it never adds, uses up or brings forward an attempt. After each pause it lets
 * one attempt through.
 */
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { healthKey, parseHealthKey } from "../model/keys.ts";
import type { EndpointHealth } from "../model/endpoint-health.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { HealthOptions } from "../ports/plan.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { everyEntry } from "../records/subscription-cache.ts";
import { succeededSince } from "./stored-outcomes.ts";

export interface CircuitBreaker {
  /** Loads what outlives a restart: since when each subscription has only failed. */
  start(): Promise<void>;
  /** Returns how long an attempt of this delivery must wait, ms; `undefined`: it may be made now. */
  admit(sub: Subscription, ordinal: string): number | undefined;
  /**
   * The delivery is no longer under way on this node. If it was the probe and ended without a result, another may be.
   */
  left(subscriptionId: string, ordinal: string): void;
  /** Notes an attempt, after its commit. */
  attempted(sub: Subscription, delivery: Delivery, attempt: Attempt, outcome: Outcome): void;
  /** Forgets the failures of a subscription that was enabled again. */
  forget(subscriptionId: string): Promise<void>;
  /** Lets the next attempt through now: a replay by hand is the probe. */
  probe(subscriptionId: string): Promise<void>;
  state(subscriptionId: string): EndpointHealth;
  /** Returns how many subscriptions this node pauses now; one whose probe is under way is among them. */
  paused(): number;
  /** Resolves when what `attempted` began is stored. */
  settled(): Promise<void>;
}

interface Streak {
  failures: number;
  /**
   * Time-outs in a row. Those of attempts that were under way together count as one, because they show the same moment.
   */
  timeouts: number;
  /** Monotonic time of the last time-out that counted. */
  timedOutAt: number;
  since: number;
  restMs: number;
  /** Monotonic, so that a wall clock that is set back lengthens no pause. */
  restEnds: number;
  /** The delivery (ordinal) that may try after a pause; the others wait for its outcome. */
  probe: string | undefined;
  stored: boolean;
  /**
   * It was read at the start and may be out of date: the node that wrote it may have seen a success since, or may have
   * died.
   */
  unconfirmed: boolean;
  /** Its subscription is being disabled. */
  ending: boolean;
}

const newStreak = (since: number): Streak => ({
  failures: 0,
  timeouts: 0,
  timedOutAt: Number.NEGATIVE_INFINITY,
  since,
  restMs: 0,
  restEnds: 0,
  probe: undefined,
  stored: false,
  unconfirmed: false,
  ending: false,
});

const HEALTHY: EndpointHealth = { failures: 0 };
/** Time-outs hold slots for long, so fewer in a row open the breaker than the `breakerAfter` of other failures. */
const timeoutsThatOpen = (breakerAfter: number): number => Math.ceil(breakerAfter / 4);
/** A probe that takes longer than this, ms, no longer makes the others wait. */
const PROBE_MS = 60_000;

export function createCircuitBreaker(deps: {
  readonly options: HealthOptions | false;
  readonly storage: Pick<Storage, "range" | "getItem" | "commit" | "queue">;
  readonly clock: Clock;
  readonly disable: (keyId: string, subscriptionId: string) => Promise<void>;
  readonly log: Log;
  readonly metrics: Metrics;
}): CircuitBreaker {
  const { options, storage, clock, log, metrics } = deps;
  const streaks = new Map<string, Streak>();
  const writes = new Set<Promise<unknown>>();

  function later(what: string, work: () => Promise<unknown>): void {
    const done = work()
      .catch((error: unknown) => log.warn("endpoint health was not stored", { reason: what, error: String(error) }))
      .finally(() => writes.delete(done));
    writes.add(done);
  }

  async function clear(id: string, streak: Streak | undefined): Promise<void> {
    streaks.delete(id);
    await storage.queue.pause(id, 0);
    if (streak?.stored === true) await storage.commit([{ op: "delete", key: healthKey(id) }]);
  }

  /** Trusts a streak read at the start only if its row still exists and no delivery has succeeded since. */
  async function confirm(sub: Subscription, ordinal: string, streak: Streak, options: HealthOptions): Promise<void> {
    const stillStored = (await storage.getItem(healthKey(sub.id))) !== undefined;
    const well = !stillStored || (await succeededSince(storage, sub.id, streak.since));
    if (streaks.get(sub.id) !== streak || !streak.unconfirmed) return;
    streak.unconfirmed = false;
    if (!well) return judge(sub, ordinal, streak, options);
    log.info("a subscription that was stored as failing has succeeded since", { subscriptionId: sub.id });
    streaks.set(sub.id, { ...newStreak(clock.now()), failures: 1 });
    if (stillStored) await storage.commit([{ op: "delete", key: healthKey(sub.id) }]);
  }

  /** Each node sees only its own attempts: a receiver that succeeded on another node is not disabled. */
  async function end(sub: Subscription, streak: Streak): Promise<void> {
    streak.ending = true;
    try {
      if (await succeededSince(storage, sub.id, streak.since)) await clear(sub.id, streak);
      else await deps.disable(sub.keyId, sub.id);
      // Only after success, so that the next failure retries what could not be stored.
      if (streaks.get(sub.id) === streak) streaks.delete(sub.id);
    } finally {
      streak.ending = false;
    }
  }

  function countTimeout(streak: Streak, { error, durationMs }: Attempt): void {
    if (error !== "timeout") {
      streak.timeouts = 0;
      return;
    }
    const now = clock.monotonic();
    if (now - durationMs < streak.timedOutAt) return;
    streak.timeouts++;
    streak.timedOutAt = now;
  }

  function failed(sub: Subscription, ordinal: string, attempt: Attempt, options: HealthOptions): void {
    const streak = streaks.get(sub.id) ?? newStreak(clock.now());
    streaks.set(sub.id, streak);
    streak.failures++;
    countTimeout(streak, attempt);
    if (streak.unconfirmed) later("confirm", () => confirm(sub, ordinal, streak, options));
    else judge(sub, ordinal, streak, options);
  }

  function judge(
    sub: Subscription,
    ordinal: string,
    streak: Streak,
    { disableAfterMs, breakerAfter, breakerPauseMs, breakerMaxPauseMs }: HealthOptions,
  ): void {
    const now = clock.now();
    if (now - streak.since >= disableAfterMs) {
      if (!streak.ending) later("disable", () => end(sub, streak));
      return;
    }
    if (streak.failures < breakerAfter && streak.timeouts < timeoutsThatOpen(breakerAfter)) return;
    // Attempts that were under way when the breaker opened do not change the pause.
    if (streak.restMs > 0 && streak.probe !== ordinal) return;
    streak.restMs = streak.restMs === 0 ? breakerPauseMs : Math.min(streak.restMs * 2, breakerMaxPauseMs);
    const { restMs } = streak;
    streak.restEnds = clock.monotonic() + restMs;
    streak.probe = undefined;
    metrics.count("breakers_opened");
    log.warn("the circuit breaker pauses a subscription", {
      subscriptionId: sub.id,
      keyId: sub.keyId,
      count: streak.failures,
      dueAt: now + restMs,
    });
    later("rest", () => storage.queue.pause(sub.id, restMs));
    if (streak.stored) return;
    streak.stored = true;
    later("streak", () => storage.commit([{ op: "put", key: healthKey(sub.id), value: String(streak.since) }]));
  }

  return {
    async start() {
      if (options === false) return;
      for await (const { key, value } of everyEntry(storage, healthKey(""))) {
        const { breakerAfter: failures } = options;
        streaks.set(parseHealthKey(key), { ...newStreak(Number(value)), failures, stored: true, unconfirmed: true });
      }
    },
    admit(sub, ordinal) {
      const streak = streaks.get(sub.id);
      if (streak === undefined || streak.restMs === 0 || streak.probe === ordinal) return undefined;
      const now = clock.monotonic();
      // Never longer than a pause: all nodes get this, and this one may die before it can take it back.
      if (now < streak.restEnds) return Math.min(streak.restEnds - now, streak.restMs);
      streak.probe = ordinal;
      streak.restEnds = now + PROBE_MS;
      return undefined;
    },
    left(subscriptionId, ordinal) {
      const streak = streaks.get(subscriptionId);
      if (streak === undefined || streak.probe !== ordinal) return;
      streak.probe = undefined;
      streak.restEnds = 0;
    },
    attempted(sub, { ordinal }, attempt, outcome) {
      if (options === false) return;
      if (outcome.kind !== "delivered") return failed(sub, ordinal, attempt, options);
      const streak = streaks.get(sub.id);
      if (streak === undefined) return;
      if (streak.restMs === 0 && !streak.stored) streaks.delete(sub.id);
      else later("recovery", () => clear(sub.id, streak));
    },
    forget: (id) => clear(id, streaks.get(id)),
    async probe(id) {
      const streak = streaks.get(id);
      if (streak !== undefined) streak.restEnds = 0;
      await storage.queue.pause(id, 0);
    },
    state(id) {
      const streak = streaks.get(id);
      if (streak === undefined) return HEALTHY;
      const leftMs = streak.restMs > 0 && streak.probe === undefined ? streak.restEnds - clock.monotonic() : 0;
      return {
        failures: streak.failures,
        failingSince: streak.since,
        restsUntil: leftMs > 0 ? clock.now() + leftMs : undefined,
      };
    },
    paused() {
      const now = clock.monotonic();
      return [...streaks.values()].filter(({ restMs, restEnds }) => restMs > 0 && restEnds > now).length;
    },
    async settled() {
      await Promise.all(writes);
    },
  };
}
