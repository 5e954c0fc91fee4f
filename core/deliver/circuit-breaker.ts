/**
 * The circuit breaker pauses an endpoint that only fails, and disables a subscription that has failed for days.
 *
 * It moves due times and nothing else: it never adds, uses up or brings forward an attempt. After each pause it lets
 * one attempt through (`Gates`).
 */
import type { Attempt } from "../model/attempt.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY, HEALTH } from "../model/schema.ts";
import type { EndpointHealth, Subscription } from "../model/subscription.ts";
import { OPERATIONAL } from "../model/names.ts";
import { breakerClosed, breakerOpened, type Notice } from "../model/notice.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptObserver } from "../ports/observer.ts";
import type { HealthOptions } from "../ports/plan.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { Gates } from "./gates.ts";

/** Time-outs hold slots for long, so fewer in a row open the breaker than the `breakerAfter` of other failures. */
const timeoutsThatOpen = (breakerAfter: number): number => Math.ceil(breakerAfter / 4);
/** Rows of subscriptions that are read at once. */
const READ_AT_ONCE = 500;
const OUTCOMES_PAGE = 200;
/** Most deliveries read, the newest first: a receiver that failed this often has failed for long enough. */
const MOST_OUTCOMES = 2_000;

/** The failures in a row of one subscription, as this node knows them. */
class Streak {
  failures = 0;
  /** Time-outs in a row. Those of attempts that were under way together count as one, because they show the same moment. */
  timeouts = 0;
  /** Monotonic time of the last time-out that counted. */
  timedOutAt = Number.NEGATIVE_INFINITY;
  /** Epoch ms: what is stored, and what people read. */
  since: number;
  /** Monotonic time of the first failure: a wall clock that is set makes nobody's failures days long. */
  began: number;
  /** Length of the last pause; 0 while the breaker is closed. */
  pauseMs = 0;
  stored = false;
  /** Read at the start and maybe out of date: the node that wrote it may have seen a success since. */
  unconfirmed = false;
  /** Its subscription is being disabled. */
  ending = false;
  /** Something else than an operational event failed: only then its states are reported. */
  reported = false;

  constructor(since: number, began: number) {
    this.since = since;
    this.began = began;
  }

  countTimeout({ error, durationMs }: Attempt, now: number): void {
    if (error !== "timeout") this.timeouts = 0;
    else if (now - durationMs >= this.timedOutAt) {
      this.timeouts++;
      this.timedOutAt = now;
    }
  }
}

interface BreakerDeps {
  readonly options: HealthOptions | false;
  readonly gates: Gates;
  readonly storage: Pick<Storage, "range" | "getItem" | "getMany" | "commit" | "queue">;
  readonly clock: Clock;
  /** @param because the type of an event that failed */
  readonly disable: (keyId: string, subscriptionId: string, because?: string) => Promise<void>;
  readonly commitWith: (changes: readonly Change[], notice: Notice) => Promise<void>;
  readonly log: Log;
  readonly metrics: Metrics;
}

export class CircuitBreaker {
  readonly #deps: BreakerDeps;
  readonly #streaks = new Map<string, Streak>();
  /** The subscriptions that have failed last: a success of others changes nothing. */
  readonly failing: ReadonlyMap<string, unknown> = this.#streaks;
  readonly #writes = new Set<Promise<unknown>>();
  /** Epoch ms of `start`. */
  #startedAt = 0;

  constructor(deps: BreakerDeps) {
    this.#deps = deps;
  }

  /** Loads what outlives a restart: since when each subscription has only failed. */
  async start(): Promise<void> {
    const { options, storage, clock } = this.#deps;
    if (options === false) return;
    const now = (this.#startedAt = clock.now());
    for await (const { key, value } of everyEntry(storage, HEALTH.start)) {
      // Of a damaged row, or one by a clock that was ahead, the beginning is not known: the days are counted from now.
      const since = Number(value) > 0 ? Math.min(Number(value), now) : now;
      const streak = new Streak(since, clock.monotonic() - (now - since));
      Object.assign(streak, { failures: options.breakerAfter, stored: true, unconfirmed: true });
      this.#streaks.set(HEALTH.id(key).subscriptionId, streak);
    }
  }

  /** Notes an attempt, as soon as it was answered. */
  attempted(...[sub, { ordinal }, attempt, outcome, type = ""]: Parameters<AttemptObserver>): void {
    const { options, clock } = this.#deps;
    if (options === false) return;
    const known = this.#streaks.get(sub.id);
    if (outcome.kind === "delivered") return known && this.#succeeded(sub, known);
    const streak = known ?? new Streak(clock.now(), clock.monotonic());
    this.#streaks.set(sub.id, streak);
    streak.failures++;
    streak.reported ||= !type.startsWith(OPERATIONAL);
    streak.countTimeout(attempt, clock.monotonic());
    if (streak.unconfirmed) this.#later("confirm", () => this.#confirm(sub, ordinal, streak, options));
    else this.#judge(sub, ordinal, streak, options);
  }

  /** Forgets the failures of a subscription that was enabled again, and every pause of it. */
  async forget(id: string): Promise<void> {
    const { gates, storage } = this.#deps;
    gates.end(id);
    await this.#clear(id, this.#streaks.get(id));
    // A streak that ended with the subscription disabled, or that another node counts, is not in memory here.
    const left = await storage.getItem(HEALTH.key({ subscriptionId: id }));
    if (left !== undefined) await storage.commit([HEALTH.delete({ subscriptionId: id })]);
  }

  /** Returns those whose breaker is open as this node or the storage knows: none is missing, some may be closed again. */
  async open(ids: readonly string[]): Promise<readonly string[]> {
    const open: string[] = [];
    for (let i = 0; i < ids.length; i += READ_AT_ONCE) {
      const some = ids.slice(i, i + READ_AT_ONCE);
      const rows = await this.#deps.storage.getMany(some.map((subscriptionId) => HEALTH.key({ subscriptionId })));
      open.push(...some.filter((id, n) => rows[n] !== undefined || (this.#streaks.get(id)?.pauseMs ?? 0) > 0));
    }
    return open;
  }

  /** Lets the next attempt through now: a replay by hand is the probe. */
  async probe(id: string): Promise<void> {
    this.#deps.gates.probe(id);
    await this.#deps.storage.queue.pause(id, 0);
  }

  state(id: string): EndpointHealth {
    const { failures, since } = this.#streaks.get(id) ?? {};
    if (failures === undefined) return { failures: 0 };
    const leftMs = this.#deps.gates.leftMs(id, "failing");
    return { failures, failingSince: since, restsUntil: leftMs > 0 ? this.#deps.clock.now() + leftMs : undefined };
  }

  /** Resolves when what `attempted` began is stored. */
  async settled(): Promise<void> {
    await Promise.all(this.#writes);
  }

  #succeeded(sub: Subscription, streak: Streak): void {
    if (streak.unconfirmed) streak.reported ||= sub.events.some((name) => !name.startsWith(OPERATIONAL));
    if (streak.pauseMs === 0 && !streak.stored) this.#streaks.delete(sub.id);
    else this.#later("recovery", () => this.#clear(sub.id, streak, sub));
  }

  /** Trusts a streak read at the start only if its row still exists and no delivery has succeeded since. */
  async #confirm(sub: Subscription, ordinal: string, streak: Streak, options: HealthOptions): Promise<void> {
    const { storage, clock, log } = this.#deps;
    const stillStored = (await storage.getItem(HEALTH.key({ subscriptionId: sub.id }))) !== undefined;
    const found = stillStored ? await storedOutcomes(storage, sub.id, streak.since, this.#startedAt) : undefined;
    if (this.#streaks.get(sub.id) !== streak || !streak.unconfirmed) return;
    streak.unconfirmed = false;
    if (found?.succeeded === false) {
      // From the last attempt to the start no relay was at work, or the clock was wrong at the start: nothing failed. Without
      // a stored attempt nothing shows that anything did.
      streak.began += this.#startedAt - Math.max(streak.since, found.attemptedAt ?? streak.since);
      return this.#judge(sub, ordinal, streak, options);
    }
    log.info("a subscription that was stored as failing has succeeded since", { subscriptionId: sub.id });
    const fresh = new Streak(clock.now(), clock.monotonic());
    fresh.failures = 1;
    this.#streaks.set(sub.id, fresh);
    if (stillStored) await this.#forgetStored(sub.id, streak, sub);
  }

  #judge(sub: Subscription, ordinal: string, streak: Streak, options: HealthOptions): void {
    const { disableAfterMs, breakerAfter } = options;
    if (this.#deps.clock.monotonic() - streak.began >= disableAfterMs) {
      if (!streak.ending) this.#later("disable", () => this.#end(sub, streak));
      return;
    }
    if (streak.failures < breakerAfter && streak.timeouts < timeoutsThatOpen(breakerAfter)) return;
    // Attempts that were under way when the breaker opened do not change the pause.
    if (streak.pauseMs === 0 || this.#deps.gates.isProbe(sub.id, ordinal)) this.#pause(sub, streak, options);
  }

  /** Opens the breaker, or keeps it open for twice as long as before. */
  #pause(sub: Subscription, streak: Streak, { breakerPauseMs, breakerMaxPauseMs }: HealthOptions): void {
    const { gates, storage, clock, commitWith, log, metrics } = this.#deps;
    const { id: subscriptionId, keyId } = sub;
    const ms = streak.pauseMs === 0 ? breakerPauseMs : Math.min(streak.pauseMs * 2, breakerMaxPauseMs);
    const until = clock.now() + ms;
    streak.pauseMs = ms;
    gates.pause(subscriptionId, "failing", ms);
    metrics.count("breakers_opened");
    const facts = { subscriptionId, keyId, count: streak.failures, dueAt: until };
    log.warn("the circuit breaker pauses a subscription", facts);
    this.#later("rest", () => storage.queue.pause(subscriptionId, ms));
    if (streak.stored) return;
    streak.stored = true;
    const changes = [HEALTH.put({ subscriptionId }, String(streak.since))];
    const opened = breakerOpened(sub, streak.failures, streak.since, until);
    this.#later("streak", () => (streak.reported ? commitWith(changes, opened) : storage.commit(changes)));
  }

  /** Each node sees only its own attempts: a receiver that succeeded on another node is not disabled. */
  async #end(sub: Subscription, streak: Streak): Promise<void> {
    const { storage, disable } = this.#deps;
    streak.ending = true;
    try {
      if ((await storedOutcomes(storage, sub.id, streak.since)).succeeded) await this.#clear(sub.id, streak, sub);
      else await disable(sub.keyId, sub.id, streak.reported ? undefined : OPERATIONAL);
      // Only after success, so that the next failure retries what could not be stored.
      if (this.#streaks.get(sub.id) === streak) this.#drop(sub.id);
    } finally {
      streak.ending = false;
    }
  }

  #drop(id: string): void {
    this.#streaks.delete(id);
    this.#deps.gates.end(id, "failing");
  }

  /** @param sub given when it has recovered: then that is reported in the same commit */
  async #clear(id: string, streak: Streak | undefined, sub?: Subscription): Promise<void> {
    this.#drop(id);
    await this.#deps.storage.queue.pause(id, 0);
    if (streak?.stored === true) await this.#forgetStored(id, streak, sub);
  }

  async #forgetStored(subscriptionId: string, streak: Streak, sub: Subscription | undefined): Promise<void> {
    const changes = [HEALTH.delete({ subscriptionId })];
    if (sub === undefined || !streak.reported) await this.#deps.storage.commit(changes);
    else await this.#deps.commitWith(changes, breakerClosed(sub, streak.since));
  }

  #later(reason: string, work: () => Promise<unknown>): void {
    const warn = (error: unknown): void =>
      this.#deps.log.warn("endpoint health was not stored", { reason, error: String(error) });
    const done = work()
      .catch(warn)
      .finally(() => this.#writes.delete(done));
    this.#writes.add(done);
  }
}

/**
 * Reads what the newest deliveries of a subscription tell, from whichever node.
 * @param since epoch ms
 * @param before epoch ms. @default any time
 * @returns whether one of them succeeded at `since` or later; if not, the epoch ms of the last attempt before `before`
 * @throws StorageError
 */
async function storedOutcomes(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
  since: number,
  before = Number.POSITIVE_INFINITY,
): Promise<{ readonly succeeded: boolean; readonly attemptedAt?: number | undefined }> {
  let attemptedAt: number | undefined;
  let looked = 0;
  const newest = { reverse: true, limit: OUTCOMES_PAGE };
  for await (const { value } of everyEntry(storage, DELIVERY.under({ subscriptionId }), newest)) {
    // A record that cannot be read is no evidence.
    const delivery = unlessDamaged(DELIVERY.read(value));
    if (delivery?.status === "delivered" && delivery.updatedAt >= since) return { succeeded: true };
    const at = delivery?.attempts.at(-1)?.startedAt ?? before;
    if (at < before) attemptedAt = Math.max(attemptedAt ?? at, at);
    if (++looked === MOST_OUTCOMES) break;
  }
  return { succeeded: false, attemptedAt };
}
