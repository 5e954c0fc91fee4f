/** The limiter: may this caller make one more request on this endpoint, and what the answer's headers say about it. */
import type { Abuse, LimitCode, Take, Taken } from "../model/windows.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Counters } from "../ports/storage.ts";
import { limitHeaders, worst } from "./headers.ts";
import { routeShape } from "./routes.ts";
import { loadSuspensions, storeSuspension } from "./suspensions.ts";
import type { SuspensionShelf } from "./suspensions.ts";
import { counterKey } from "./keys.ts";

export interface LimitRow {
  readonly perMinute: number;
  readonly per5s: number;
}

export interface AbuseRule {
  readonly factor: number;
  readonly windowMs: number;
  readonly failures: number;
  readonly failuresWindowMs: number;
  readonly suspendMs: number;
  readonly maxSuspendMs: number;
  readonly forgetMs: number;
}

export interface LimiterDeps {
  readonly counters: Counters;
  /** `METHOD /path/{param}` → its row. How parameters are called does not matter. */
  readonly rows: Readonly<Record<string, LimitRow | false>>;
  readonly abuse: AbuseRule | false;
  readonly clock: Pick<Clock, "now">;
  /** Where suspensions are kept; left out, they are not. */
  readonly storage?: SuspensionShelf;
  readonly log?: Pick<Log, "warn">;
  readonly metrics?: Pick<Metrics, "count">;
}

/** Who is counted; `factor` widens the row (`/v1` counts the address at 10 × the row). */
export interface Caller {
  readonly principal: string;
  readonly factor?: number;
}

export interface CheckOptions {
  /** How long the relay, the receiver or the upstream is busy yet, ms. Then nothing is consumed. */
  readonly busyMs?: number;
  /** The endpoint takes codes that can be guessed: too many wrong ones (`failed`) suspend the first caller here. */
  readonly guessed?: boolean;
}

export type RefusalCode = LimitCode | "PROVIDER_BACKPRESSURE";

export interface Verdict {
  /** Absent when the request may pass; otherwise it is answered 429. */
  readonly code?: RefusalCode;
  /** Whole seconds ≥ 1; set with `code`. Waiting it out always works. */
  readonly retryAfter?: number;
  /** Every limit header of the answer, `Retry-After` with them. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Gives the slot back, when the answer is a 5xx of ours or PROVIDER_BACKPRESSURE. Resolves to the headers that are
   * then true. Does nothing the second time.
   */
  giveBack(): Promise<Readonly<Record<string, string>>>;
}

export interface Limiter {
  /** `undefined`: no row, no limit, no headers. Of several callers all must pass; `row` is `METHOD /path/{param}`. */
  check(
    row: string,
    callers: string | readonly (string | Caller)[],
    options?: CheckOptions,
  ): Verdict | undefined | Promise<Verdict | undefined>;
  /** Counts a wrong code of the first caller of a `guessed` check. Resolves when a suspension that it began is stored. */
  failed(row: string, caller: string): Promise<void>;
  /** Counts a request that failed to authenticate; a verdict with `code` when it must be answered 429 instead of 401. */
  unauthenticated(address: string): Promise<Verdict>;
  /** New rows and rules (a reload of the config); windows go on. */
  configure(rows: LimiterDeps["rows"], abuse: LimiterDeps["abuse"]): void;
  /** Puts stored suspensions back; to be awaited before the first request. Resolves to how many still last. */
  load(): Promise<number>;
}

/** Made once: a decision makes no objects for its figures. */
const VERDICTS: Readonly<Record<RefusalCode | "passed", Readonly<Record<string, string>>>> = {
  passed: { code: "passed" },
  ABUSE_SUSPEND: { code: "ABUSE_SUSPEND" },
  RATE_LIMIT_EXCEEDED: { code: "RATE_LIMIT_EXCEEDED" },
  BURST_EXCEEDED: { code: "BURST_EXCEEDED" },
  PROVIDER_BACKPRESSURE: { code: "PROVIDER_BACKPRESSURE" },
};
const MINUTE = 60_000;
const BURST = 5_000;
/** Failed authentications of one address a minute. */
const FAILED_LOGINS: LimitRow = { perMinute: 300, per5s: 300 };
/** A window that never fills: to ask whether someone is suspended for wrong codes. */
const ENDLESS = { limit: Number.MAX_SAFE_INTEGER, windowMs: BURST };
/** A window that is always full: each take on it is a refusal, and enough refusals suspend. */
const CLOSED = { limit: 0, windowMs: BURST };

export function createLimiter(deps: LimiterDeps): Limiter {
  const { counters, clock } = deps;
  let { abuse } = deps;
  let rows = byShape(deps.rows);
  const shapes = new Map<string, string>();

  const shapeOf = (row: string): string => {
    let shape = shapes.get(row);
    if (shape === undefined) shapes.set(row, (shape = routeShape(row)));
    return shape;
  };

  function takeOf(shape: string, row: LimitRow, caller: string | Caller): Take {
    const { principal, factor = 1 } = typeof caller === "string" ? { principal: caller } : caller;
    const perMinute = row.perMinute * factor;
    const sustained = { limit: perMinute, windowMs: MINUTE };
    const burst = { limit: row.per5s * factor, windowMs: BURST };
    const key = counterKey(shape, principal);
    if (abuse === false) return { key, sustained, burst };
    const { factor: times, windowMs, suspendMs, maxSuspendMs, forgetMs } = abuse;
    const rule: Abuse = { refusals: times * perMinute, windowMs, suspendMs, maxSuspendMs, forgetMs };
    return { key, sustained, burst, abuse: rule };
  }

  function guessTake(shape: string, caller: string | Caller, window: Take["burst"]): Take | undefined {
    if (abuse === false) return undefined;
    const { failures, failuresWindowMs, suspendMs, maxSuspendMs, forgetMs } = abuse;
    return {
      key: counterKey(`codes ${shape}`, typeof caller === "string" ? caller : caller.principal),
      sustained: window,
      burst: window,
      abuse: { refusals: failures, windowMs: failuresWindowMs, suspendMs, maxSuspendMs, forgetMs },
    };
  }

  function verdictOf(takes: readonly Take[], taken: readonly Taken[], busyMs: number): Verdict {
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

  /** The rare way out: a suspension to store, or a slot to give back because something of ours is busy. */
  async function finish(takes: readonly Take[], taken: readonly Taken[], busyMs: number): Promise<Verdict> {
    await remember(takes, taken);
    const verdict = verdictOf(takes, taken, busyMs);
    if (verdict.code === "PROVIDER_BACKPRESSURE") await verdict.giveBack();
    return verdict;
  }

  function conclude(takes: readonly Take[], taken: readonly Taken[], busyMs: number): Verdict | Promise<Verdict> {
    const rare = busyMs > 0 || taken.some(({ suspended }) => suspended !== undefined);
    return rare ? finish(takes, taken, busyMs) : verdictOf(takes, taken, 0);
  }

  async function remember(takes: readonly Take[], taken: readonly Taken[]): Promise<void> {
    if (deps.storage === undefined || counters.restore === undefined) return;
    for (const [i, { suspended }] of taken.entries()) {
      const take = takes[i] as Take;
      if (suspended === undefined || take.abuse === undefined) continue;
      try {
        await storeSuspension(deps.storage, take.key, suspended, take.abuse.forgetMs, clock.now());
      } catch (error) {
        // It holds for as long as the process lives; only a restart would lift it early.
        deps.log?.warn("a suspension could not be stored", { error: (error as Error).message });
      }
    }
  }

  return {
    check(row, callers, { busyMs = 0, guessed = false } = {}) {
      const shape = shapeOf(row);
      const limits = rows.get(shape);
      const all = typeof callers === "string" ? [callers] : callers;
      const takes = limits === undefined ? [] : all.map((caller) => takeOf(shape, limits, caller));
      const guess = guessed && all[0] !== undefined ? guessTake(shape, all[0], ENDLESS) : undefined;
      if (guess !== undefined && takes.length > 0) takes.push(guess);
      if (takes.length === 0) return busyMs > 0 ? busy(busyMs) : undefined;
      const taken = counters.take(takes);
      return Array.isArray(taken)
        ? conclude(takes, taken as readonly Taken[], busyMs)
        : (taken as Promise<readonly Taken[]>).then((all) => conclude(takes, all, busyMs));
    },
    async failed(row, caller) {
      const take = guessTake(shapeOf(row), caller, CLOSED);
      if (take !== undefined) await remember([take], await counters.take([take]));
    },
    async unauthenticated(address) {
      const { abuse: _, ...take } = takeOf("unauthenticated", FAILED_LOGINS, address);
      return verdictOf([take], await counters.take([take]), 0);
    },
    configure(nextRows, nextAbuse) {
      rows = byShape(nextRows);
      abuse = nextAbuse;
    },
    async load() {
      if (deps.storage === undefined || counters.restore === undefined || abuse === false) return 0;
      return loadSuspensions(deps.storage, counters.restore, clock.now(), abuse.forgetMs);
    },
  };
}

function busy(busyMs: number): Verdict {
  const retryAfter = Math.max(1, Math.ceil(busyMs / 1_000));
  const headers = { "Retry-After": String(retryAfter) };
  return { code: "PROVIDER_BACKPRESSURE", retryAfter, headers, giveBack: () => Promise.resolve({}) };
}

function byShape(rows: LimiterDeps["rows"]): ReadonlyMap<string, LimitRow> {
  const found = new Map<string, LimitRow>();
  // A later spelling of the same operation replaces an earlier one: overrides stand behind the defaults.
  for (const [name, row] of Object.entries(rows)) {
    if (row === false) found.delete(routeShape(name));
    else found.set(routeShape(name), row);
  }
  return found;
}
