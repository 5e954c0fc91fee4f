/**
 * The circuit breaker pauses an endpoint that only fails, and disables a subscription that has failed for days.
 *
 * It moves due times and nothing else: it never adds, uses up or brings forward an attempt. After each pause it lets
 * one attempt through.
 */
import type { Attempt } from "../model/attempt.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY, HEALTH } from "../model/schema.ts";
import type { EndpointHealth } from "../model/endpoint-health.ts";
import { OPERATIONAL } from "../model/names.ts";
import { breakerClosed, breakerOpened, type Notice } from "../model/notice.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import type { HealthOptions } from "../ports/plan.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";

interface CircuitBreaker {
  /** Loads what outlives a restart: since when each subscription has only failed. */
  start(): Promise<void>;
  /** Returns how long an attempt of this delivery must wait, ms; `undefined`: it may be made now. */
  admit(sub: Subscription, ordinal: string): number | undefined;
  /** The delivery is no longer under way on this node. If it was the probe and ended without a result, another may be. */
  left(subscriptionId: string, ordinal: string): void;
  /** Notes an attempt, after its commit. */
  attempted: AttemptObserver;
  /** Forgets the failures of a subscription that was enabled again. */
  forget(subscriptionId: string): Promise<void>;
  /** Returns those whose breaker is open as this node or the storage knows: none is missing, some may be closed again. */
  open(subscriptionIds: readonly string[]): Promise<readonly string[]>;
  /** Lets the next attempt through now: a replay by hand is the probe. */
  probe(subscriptionId: string): Promise<void>;
  state(subscriptionId: string): EndpointHealth;
  /** Returns how many subscriptions this node pauses now; one whose probe is under way is among them. */
  paused(): number;
  /** Resolves when what `attempted` began is stored. */
  settled(): Promise<void>;
}

const HEALTHY: EndpointHealth = { failures: 0 };
/** Time-outs hold slots for long, so fewer in a row open the breaker than the `breakerAfter` of other failures. */
const timeoutsThatOpen = (breakerAfter: number): number => Math.ceil(breakerAfter / 4);
/** A probe that takes longer than this, ms, no longer makes the others wait. */
const PROBE_MS = 60_000;
/** Rows of subscriptions that are read at once. */
const READ_AT_ONCE = 500;
const OUTCOMES_PAGE = 200;
/** Most deliveries read, the newest first: a receiver that failed this often has failed for long enough. */
const MOST_OUTCOMES = 2_000;

/** What a node knows of the failures in a row of one subscription. */
interface Streak {
  failures: number;
  /** Time-outs in a row. Those of attempts that were under way together count as one, because they show the same moment. */
  timeouts: number;
  /** Monotonic time of the last time-out that counted. */
  timedOutAt: number;
  /** Epoch ms: what is stored, and what people read. */
  since: number;
  /** Monotonic time of the first failure: a wall clock that is set makes nobody's failures days long. */
  began: number;
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
  /** Whether something else than an operational event failed: only then its states are reported. */
  reported: boolean;
}

/** @param ageMs how long it has lasted, when it is read at the start */
const newStreak = (since: number, now: number, ageMs = 0): Streak => ({
  failures: 0,
  timeouts: 0,
  timedOutAt: Number.NEGATIVE_INFINITY,
  since,
  began: now - Math.max(0, ageMs),
  restMs: 0,
  restEnds: 0,
  probe: undefined,
  stored: false,
  unconfirmed: false,
  ending: false,
  reported: false,
});

export function createCircuitBreaker(deps: {
  readonly options: HealthOptions | false;
  readonly storage: Pick<Storage, "range" | "getItem" | "getMany" | "commit" | "queue">;
  readonly clock: Clock;
  /** @param because the type of an event that failed */
  readonly disable: (keyId: string, subscriptionId: string, because?: string) => Promise<void>;
  /** Commits changes, and a notice with them. @default commits the changes */
  readonly commitWith?: (changes: readonly Change[], notice: Notice) => Promise<void>;
  readonly log: Log;
  readonly metrics: Metrics;
}): CircuitBreaker {
  const { options, storage, clock, log, metrics } = deps;
  const streaks = new Map<string, Streak>();
  const writes = new Set<Promise<unknown>>();
  /** Epoch ms of `start`. */
  let startedAt = 0;
  const commit = deps.commitWith ?? storage.commit.bind(storage);

  function later(what: string, work: () => Promise<unknown>): void {
    const done = work()
      .catch((error: unknown) => log.warn("endpoint health was not stored", { reason: what, error: String(error) }))
      .finally(() => writes.delete(done));
    writes.add(done);
  }

  /** @param sub given when it has recovered: then that is reported in the same commit */
  async function clear(id: string, streak: Streak | undefined, sub?: Subscription): Promise<void> {
    streaks.delete(id);
    await storage.queue.pause(id, 0);
    if (streak?.stored === true) await forgetStored(id, streak, sub);
  }

  async function forgetStored(id: string, streak: Streak, sub: Subscription | undefined): Promise<void> {
    const changes: readonly Change[] = [HEALTH.delete({ subscriptionId: id })];
    if (sub === undefined || !streak.reported) await storage.commit(changes);
    else await commit(changes, breakerClosed(sub, streak.since));
  }

  /** Trusts a streak read at the start only if its row still exists and no delivery has succeeded since. */
  async function confirm(sub: Subscription, ordinal: string, streak: Streak, options: HealthOptions): Promise<void> {
    const stillStored = (await storage.getItem(HEALTH.key({ subscriptionId: sub.id }))) !== undefined;
    const found = stillStored ? await storedOutcomes(storage, sub.id, streak.since, startedAt) : undefined;
    if (streaks.get(sub.id) !== streak || !streak.unconfirmed) return;
    streak.unconfirmed = false;
    if (found?.succeeded === false) {
      const { attemptedAt } = found;
      // From the last attempt to the start no relay was at work, or the clock was wrong at the start: nothing failed.
      if (attemptedAt !== undefined) streak.began += startedAt - Math.max(streak.since, attemptedAt);
      return judge(sub, ordinal, streak, options);
    }
    log.info("a subscription that was stored as failing has succeeded since", { subscriptionId: sub.id });
    streaks.set(sub.id, { ...newStreak(clock.now(), clock.monotonic()), failures: 1 });
    if (stillStored) await forgetStored(sub.id, streak, sub);
  }

  /** Each node sees only its own attempts: a receiver that succeeded on another node is not disabled. */
  async function end(sub: Subscription, streak: Streak): Promise<void> {
    streak.ending = true;
    try {
      if ((await storedOutcomes(storage, sub.id, streak.since)).succeeded) await clear(sub.id, streak, sub);
      else await deps.disable(sub.keyId, sub.id, streak.reported ? undefined : OPERATIONAL);
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

  function failed(sub: Subscription, ordinal: string, attempt: Attempt, type: string, options: HealthOptions): void {
    const streak = streaks.get(sub.id) ?? newStreak(clock.now(), clock.monotonic());
    streaks.set(sub.id, streak);
    streak.failures++;
    streak.reported ||= !type.startsWith(OPERATIONAL);
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
    if (clock.monotonic() - streak.began >= disableAfterMs) {
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
    const changes: readonly Change[] = [HEALTH.put({ subscriptionId: sub.id }, String(streak.since))];
    const opened = breakerOpened(sub, streak.failures, streak.since, now + restMs);
    later("streak", () => (streak.reported ? commit(changes, opened) : storage.commit(changes)));
  }

  return {
    async start() {
      if (options === false) return;
      const now = (startedAt = clock.now());
      for await (const { key, value } of everyEntry(storage, HEALTH.start)) {
        const { breakerAfter: failures } = options;
        // Of a damaged row, or one by a clock that was ahead, the beginning is not known: the days are counted from now.
        const since = Number(value) > 0 ? Math.min(Number(value), now) : now;
        const streak = newStreak(since, clock.monotonic(), now - since);
        const read = { ...streak, failures, stored: true, unconfirmed: true };
        streaks.set(HEALTH.id(key).subscriptionId, read);
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
    attempted(sub, { ordinal }, attempt, outcome, type = "") {
      if (options === false) return;
      if (outcome.kind !== "delivered") return failed(sub, ordinal, attempt, type, options);
      const streak = streaks.get(sub.id);
      if (streak === undefined) return;
      if (streak.unconfirmed) streak.reported ||= sub.events.some((name) => !name.startsWith(OPERATIONAL));
      if (streak.restMs === 0 && !streak.stored) streaks.delete(sub.id);
      else later("recovery", () => clear(sub.id, streak, sub));
    },
    async forget(id) {
      await clear(id, streaks.get(id));
      // A streak that ended with the subscription disabled, or that another node counts, is not in memory here.
      const left = await storage.getItem(HEALTH.key({ subscriptionId: id }));
      if (left !== undefined) await storage.commit([HEALTH.delete({ subscriptionId: id })]);
    },
    async open(ids) {
      const open: string[] = [];
      for (let i = 0; i < ids.length; i += READ_AT_ONCE) {
        const some = ids.slice(i, i + READ_AT_ONCE);
        const rows = await storage.getMany(some.map((subscriptionId) => HEALTH.key({ subscriptionId })));
        open.push(...some.filter((id, n) => rows[n] !== undefined || (streaks.get(id)?.restMs ?? 0) > 0));
      }
      return open;
    },
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

/** What the newest deliveries of a subscription tell, from whichever node. */
interface StoredOutcomes {
  /** Whether one of them succeeded at `since` or later. If so, the rest is not read. */
  readonly succeeded: boolean;
  /** Epoch ms of the last attempt before `before`; absent when there is none. */
  readonly attemptedAt?: number;
}

/**
 * @param since epoch ms
 * @param before epoch ms. @default any time
 * @throws StorageError
 */
async function storedOutcomes(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
  since: number,
  before = Number.POSITIVE_INFINITY,
): Promise<StoredOutcomes> {
  let attemptedAt = Number.NEGATIVE_INFINITY;
  let looked = 0;
  const newest = { reverse: true, limit: OUTCOMES_PAGE };
  for await (const { value } of everyEntry(storage, DELIVERY.under({ subscriptionId }), newest)) {
    // A record that cannot be read is no evidence.
    const delivery = unlessDamaged(DELIVERY.read(value));
    if (delivery?.status === "delivered" && delivery.updatedAt >= since) return { succeeded: true };
    const at = delivery?.attempts.at(-1)?.startedAt ?? before;
    if (at < before) attemptedAt = Math.max(attemptedAt, at);
    if (++looked === MOST_OUTCOMES) break;
  }
  return { succeeded: false, ...(attemptedAt > Number.NEGATIVE_INFINITY && { attemptedAt }) };
}
