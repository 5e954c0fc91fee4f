/** The limiter decides whether a caller may make one more request on an endpoint, and builds the answer's limit headers. */
import type { LimitCode, Take, WindowResult } from "../model/windows.ts";
import type { Clock } from "../ports/clock.ts";
import type { Guess, Log, Metrics } from "../ports/plugin.ts";
import type { Counters } from "../ports/storage.ts";
import type { AbuseOptions, LimitRows } from "../ports/plan.ts";
import { createGuess, GUESSES, isGuessKey } from "./guesses.ts";
import { limitHeaders, worst } from "./headers.ts";
import { loadSuspensions, storeSuspension, type SuspensionStorage } from "./suspensions.ts";
import { type Caller, createTakes } from "./takes.ts";

export type { Caller } from "./takes.ts";

export interface LimiterDeps {
  readonly counters: Counters;
  readonly rows: LimitRows;
  readonly abuse: AbuseOptions | false;
  readonly clock: Pick<Clock, "now">;
  /** Where suspensions are stored; without it they are not. */
  readonly storage?: SuspensionStorage;
  readonly log?: Pick<Log, "warn">;
  readonly metrics?: Pick<Metrics, "count">;
}

interface CheckOptions {
  /** How much longer the relay, the receiver or the upstream is busy, ms. While busy, nothing is consumed. */
  readonly busyMs?: number;
}

export type LimitRefusalCode = LimitCode | "PROVIDER_BACKPRESSURE";

export interface LimitVerdict {
  /** Absent when the request may pass; otherwise it is answered 429. */
  readonly code?: LimitRefusalCode;
  /** Whole seconds ≥ 1; set with `code`. A request after this wait passes. */
  readonly retryAfter?: number;
  /** Every limit header of the answer, `Retry-After` included. */
  readonly headers: Readonly<Record<string, string>>;
  /** Gives the slot back, for a 5xx of ours or PROVIDER_BACKPRESSURE, once. Resolves to the headers of then. */
  giveBack(): Promise<Readonly<Record<string, string>>>;
}

/** Made once, so that a decision makes no objects for its metrics. */
const VERDICTS: Readonly<Record<LimitRefusalCode | "passed", Readonly<Record<string, string>>>> = {
  passed: { code: "passed" },
  ABUSE_SUSPEND: { code: "ABUSE_SUSPEND" },
  RATE_LIMIT_EXCEEDED: { code: "RATE_LIMIT_EXCEEDED" },
  BURST_EXCEEDED: { code: "BURST_EXCEEDED" },
  PROVIDER_BACKPRESSURE: { code: "PROVIDER_BACKPRESSURE" },
};

const NOT_COUNTED: LimitVerdict = { headers: {}, giveBack: () => Promise.resolve({}) };

export class Limiter {
  readonly #deps: LimiterDeps;
  #abuse: AbuseOptions | false;
  #takes: ReturnType<typeof createTakes>;
  /** Counts guesses at codes, whatever rows and rules say. A suspension that a wrong one begins is stored before it rejects. */
  readonly guess: Guess;

  constructor(deps: LimiterDeps) {
    this.#deps = deps;
    this.#abuse = deps.abuse;
    this.#takes = createTakes(deps.rows, deps.abuse);
    const take = async (one: Take): Promise<LimitVerdict> => {
      const taken = await deps.counters.take([one]);
      await this.#remember([one], taken);
      return this.#verdictOf([one], taken, 0);
    };
    this.guess = createGuess(take, () => this.#abuse, deps.counters);
  }

  /** `undefined`: no row, no limit, no headers. With several callers all must pass; `row` is `METHOD /path/{param}`. */
  check(
    row: string,
    callers: string | readonly (string | Caller)[],
    { busyMs = 0 }: CheckOptions = {},
  ): LimitVerdict | undefined | Promise<LimitVerdict | undefined> {
    const takes = this.#takes.of(row, typeof callers === "string" ? [callers] : callers);
    if (takes.length === 0) return busyMs > 0 ? busy(busyMs) : undefined;
    const taken = this.#deps.counters.take(takes);
    return Array.isArray(taken)
      ? this.#conclude(takes, taken as readonly WindowResult[], busyMs)
      : (taken as Promise<readonly WindowResult[]>).then((all) => this.#conclude(takes, all, busyMs));
  }

  /** Counts a request that failed to authenticate; a verdict with `code` when it must be answered 429 instead of 401. */
  async unauthenticated(address: string): Promise<LimitVerdict> {
    const take = this.#takes.failedAuthentication(address);
    if (take === undefined) return NOT_COUNTED;
    return this.#verdictOf([take], await this.#deps.counters.take([take]), 0);
  }

  /** Sets new rows and rules (after a reload of the config); windows continue. */
  configure(rows: LimiterDeps["rows"], abuse: LimiterDeps["abuse"]): void {
    this.#abuse = abuse;
    this.#takes = createTakes(rows, abuse);
  }

  /** Restores stored suspensions; await it before the first request. Resolves to how many still last. */
  async load(): Promise<number> {
    const { storage, counters, clock } = this.#deps;
    if (storage === undefined || counters.restore === undefined) return 0;
    const abuse = this.#abuse;
    // Without an `abuse` rule only wrong codes suspend.
    const holds = abuse === false ? isGuessKey : () => true;
    const forgetMs = Math.max(GUESSES.forgetMs, abuse === false ? 0 : abuse.forgetMs);
    return loadSuspensions(storage, counters.restore, clock.now(), forgetMs, holds);
  }

  #conclude(
    takes: readonly Take[],
    taken: readonly WindowResult[],
    busyMs: number,
  ): LimitVerdict | Promise<LimitVerdict> {
    const rare = busyMs > 0 || taken.some(({ suspended }) => suspended !== undefined);
    return rare ? this.#finish(takes, taken, busyMs) : this.#verdictOf(takes, taken, 0);
  }

  /** Handles the rare cases: a suspension to store, or a slot to give back because something of ours is busy. */
  async #finish(takes: readonly Take[], taken: readonly WindowResult[], busyMs: number): Promise<LimitVerdict> {
    await this.#remember(takes, taken);
    const verdict = this.#verdictOf(takes, taken, busyMs);
    if (verdict.code === "PROVIDER_BACKPRESSURE") await verdict.giveBack();
    return verdict;
  }

  #verdictOf(takes: readonly Take[], taken: readonly WindowResult[], busyMs: number): LimitVerdict {
    const { counters, clock, metrics } = this.#deps;
    const found = worst(takes, taken);
    const code = found.code ?? (busyMs > 0 ? "PROVIDER_BACKPRESSURE" : undefined);
    metrics?.count("limiter_verdicts", VERDICTS[code ?? "passed"]);
    let given = found.code !== undefined;
    const giveBack = async (): Promise<Readonly<Record<string, string>>> => {
      if (!given) {
        given = true;
        await counters.giveBack(takes, taken);
      }
      return limitHeaders(found.code === undefined ? found.returned : found, clock.now());
    };
    if (code === undefined) return { headers: limitHeaders(found, clock.now()), giveBack };
    const retryAfter = secondsOf(Math.max(found.waitMs, busyMs));
    const shown = found.code === undefined ? found.returned : found;
    const headers = { ...limitHeaders(shown, clock.now()), "Retry-After": String(retryAfter) };
    return { code, retryAfter, headers, giveBack };
  }

  async #remember(takes: readonly Take[], taken: readonly WindowResult[]): Promise<void> {
    const { storage, counters, clock, log } = this.#deps;
    if (storage === undefined || counters.restore === undefined) return;
    for (const [i, { suspended }] of taken.entries()) {
      const take = takes[i] as Take;
      if (suspended === undefined || take.abuse === undefined) continue;
      try {
        await storeSuspension(storage, take.key, suspended, take.abuse.forgetMs, clock.now());
      } catch (error) {
        // It lasts as long as the process lives; only a restart would lift it early.
        log?.warn("a suspension could not be stored", { error: (error as Error).message });
      }
    }
  }
}

/** Returns whole seconds for `Retry-After`. */
const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

function busy(busyMs: number): LimitVerdict {
  const retryAfter = secondsOf(busyMs);
  const headers = { "Retry-After": String(retryAfter) };
  return { code: "PROVIDER_BACKPRESSURE", retryAfter, headers, giveBack: NOT_COUNTED.giveBack };
}
