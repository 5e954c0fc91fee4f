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
  /**
   * Gives the slot back, when the answer is a 5xx of ours or PROVIDER_BACKPRESSURE. Resolves to the headers that are
   * true then. Does nothing the second time.
   */
  giveBack(): Promise<Readonly<Record<string, string>>>;
}

export interface Limiter {
  /** `undefined`: no row, no limit, no headers. With several callers all must pass; `row` is `METHOD /path/{param}`. */
  check(
    row: string,
    callers: string | readonly (string | Caller)[],
    options?: CheckOptions,
  ): LimitVerdict | undefined | Promise<LimitVerdict | undefined>;
  /** Counts guesses at codes, whatever rows and rules say. A suspension that a wrong one begins is stored before it rejects. */
  readonly guess: Guess;
  /** Counts a request that failed to authenticate; a verdict with `code` when it must be answered 429 instead of 401. */
  unauthenticated(address: string): Promise<LimitVerdict>;
  /** Sets new rows and rules (after a reload of the config); windows continue. */
  configure(rows: LimiterDeps["rows"], abuse: LimiterDeps["abuse"]): void;
  /** Restores stored suspensions; await it before the first request. Resolves to how many still last. */
  load(): Promise<number>;
}

/** Made once, so that a decision makes no objects for its metrics. */
const VERDICTS: Readonly<Record<LimitRefusalCode | "passed", Readonly<Record<string, string>>>> = {
  passed: { code: "passed" },
  ABUSE_SUSPEND: { code: "ABUSE_SUSPEND" },
  RATE_LIMIT_EXCEEDED: { code: "RATE_LIMIT_EXCEEDED" },
  BURST_EXCEEDED: { code: "BURST_EXCEEDED" },
  PROVIDER_BACKPRESSURE: { code: "PROVIDER_BACKPRESSURE" },
};

export function createLimiter(deps: LimiterDeps): Limiter {
  const { counters, clock } = deps;
  let { abuse } = deps;
  let takesOf = createTakes(deps.rows, abuse);

  function verdictOf(takes: readonly Take[], taken: readonly WindowResult[], busyMs: number): LimitVerdict {
    const found = worst(takes, taken);
    deps.metrics?.count("limiter_verdicts", VERDICTS[found.code ?? (busyMs > 0 ? "PROVIDER_BACKPRESSURE" : "passed")]);
    let given = found.code !== undefined;
    const giveBack = async (): Promise<Readonly<Record<string, string>>> => {
      if (!given) {
        given = true;
        await counters.giveBack(takes, taken);
      }
      return limitHeaders(found.code === undefined ? found.returned : found, clock.now());
    };
    if (found.code === undefined && busyMs <= 0) return { headers: limitHeaders(found, clock.now()), giveBack };
    const retryAfter = Math.max(1, Math.ceil(Math.max(found.waitMs, busyMs) / 1_000));
    const shown = found.code === undefined ? found.returned : found;
    return {
      code: found.code ?? "PROVIDER_BACKPRESSURE",
      retryAfter,
      headers: { ...limitHeaders(shown, clock.now()), "Retry-After": String(retryAfter) },
      giveBack,
    };
  }

  /** Handles the rare cases: a suspension to store, or a slot to give back because something of ours is busy. */
  async function finish(takes: readonly Take[], taken: readonly WindowResult[], busyMs: number): Promise<LimitVerdict> {
    await remember(takes, taken);
    const verdict = verdictOf(takes, taken, busyMs);
    if (verdict.code === "PROVIDER_BACKPRESSURE") await verdict.giveBack();
    return verdict;
  }

  function conclude(
    takes: readonly Take[],
    taken: readonly WindowResult[],
    busyMs: number,
  ): LimitVerdict | Promise<LimitVerdict> {
    const rare = busyMs > 0 || taken.some(({ suspended }) => suspended !== undefined);
    return rare ? finish(takes, taken, busyMs) : verdictOf(takes, taken, 0);
  }

  async function remember(takes: readonly Take[], taken: readonly WindowResult[]): Promise<void> {
    if (deps.storage === undefined || counters.restore === undefined) return;
    for (const [i, { suspended }] of taken.entries()) {
      const take = takes[i] as Take;
      if (suspended === undefined || take.abuse === undefined) continue;
      try {
        await storeSuspension(deps.storage, take.key, suspended, take.abuse.forgetMs, clock.now());
      } catch (error) {
        // It lasts as long as the process lives; only a restart would lift it early.
        deps.log?.warn("a suspension could not be stored", { error: (error as Error).message });
      }
    }
  }

  return {
    check(row, callers, { busyMs = 0 } = {}) {
      const all = typeof callers === "string" ? [callers] : callers;
      const takes = takesOf.of(row, all);
      if (takes.length === 0) return busyMs > 0 ? busy(busyMs) : undefined;
      const taken = counters.take(takes);
      return Array.isArray(taken)
        ? conclude(takes, taken as readonly WindowResult[], busyMs)
        : (taken as Promise<readonly WindowResult[]>).then((all) => conclude(takes, all, busyMs));
    },
    guess: createGuess(
      async (take) => {
        const taken = await counters.take([take]);
        await remember([take], taken);
        return verdictOf([take], taken, 0);
      },
      () => abuse,
      counters,
    ),
    async unauthenticated(address) {
      const take = takesOf.failedAuthentication(address);
      return take === undefined ? NOT_COUNTED : verdictOf([take], await counters.take([take]), 0);
    },
    configure(nextRows, nextAbuse) {
      abuse = nextAbuse;
      takesOf = createTakes(nextRows, nextAbuse);
    },
    async load() {
      if (deps.storage === undefined || counters.restore === undefined) return 0;
      // Without an `abuse` rule only wrong codes suspend.
      const holds = abuse === false ? isGuessKey : () => true;
      const forgetMs = Math.max(GUESSES.forgetMs, abuse === false ? 0 : abuse.forgetMs);
      return loadSuspensions(deps.storage, counters.restore, clock.now(), forgetMs, holds);
    },
  };
}

const NOT_COUNTED: LimitVerdict = { headers: {}, giveBack: () => Promise.resolve({}) };

function busy(busyMs: number): LimitVerdict {
  const retryAfter = Math.max(1, Math.ceil(busyMs / 1_000));
  const headers = { "Retry-After": String(retryAfter) };
  return { code: "PROVIDER_BACKPRESSURE", retryAfter, headers, giveBack: () => Promise.resolve({}) };
}
