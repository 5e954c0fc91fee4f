/**
 * Decides the limiter's two-window rule, as a pure function over a small state. Every counters port keeps this state
 * and decides in the same way.
 *
 * A window is `[start, start + length)`, anchored at its first counted request. Both windows are checked, then both
 * committed. A refused request consumes nothing and moves no window.
 */

export interface Limit {
  readonly limit: number;
  readonly windowMs: number;
}

export interface Abuse {
  /** Refusals within `windowMs` that lead to a suspension. */
  readonly refusals: number;
  readonly windowMs: number;
  readonly suspendMs: number;
  readonly maxSuspendMs: number;
  readonly forgetMs: number;
}

/** One question to the counters: may this principal make one more request on this endpoint? */
export interface Take {
  /** Endpoint and principal, hashed or short; at most 200 bytes. */
  readonly key: string;
  readonly sustained: Limit;
  readonly burst: Limit;
  readonly abuse?: Abuse;
}

export type LimitCode = "ABUSE_SUSPEND" | "RATE_LIMIT_EXCEEDED" | "BURST_EXCEEDED";

/** The state of one window after the decision. `resetMs`: time until it ends (the full length when it is not open). */
export interface WindowState {
  readonly remaining: number;
  readonly resetMs: number;
  /** On the port's own clock, while the window is open. Tells later in which window a request was counted. */
  readonly startedAt?: number;
}

export interface WindowResult {
  /** Absent when the request may pass. */
  readonly code?: LimitCode;
  readonly sustained: WindowState;
  readonly burst: WindowState;
  /** The longest of all waits, ms; 0 when the request may pass. */
  readonly waitMs: number;
  /** Set only on the decision that begins a suspension, which the caller stores. */
  readonly suspended?: { readonly strikes: number; readonly forMs: number };
}

/** The state of one (endpoint, principal). Times are of the port's own monotonic clock, ms. */
export interface WindowCount {
  sustainedStart: number;
  sustainedCount: number;
  burstStart: number;
  burstCount: number;
  refusedStart: number;
  refusedCount: number;
  suspendedUntil: number;
  strikes: number;
  struckAt: number;
}

export interface Decision {
  /** The state to keep: the one given, when nothing changed. */
  readonly tally: WindowCount;
  readonly taken: WindowResult;
}

/**
 * Decides about one request at `now` (the port's own monotonic clock, ms), and counts it when it may pass.
 *
 * Precedence: suspended, sustained, burst; the wait is the longest of all that apply. The refusal that reaches
 * `abuse.refusals` within `abuse.windowMs` of the first one begins a suspension, twice as long as the one before;
 * strikes expire `forgetMs` after the last. A request refused while suspended does not count as a refusal of a window.
 */
export function decide(tally: WindowCount | undefined, take: Take, now: number): Decision {
  const before = tally ?? FRESH;
  const suspended = now < before.suspendedUntil;
  const sustained = used(before.sustainedStart, before.sustainedCount, take.sustained, now);
  const burst = used(before.burstStart, before.burstCount, take.burst, now);
  const sustainedFull = sustained >= take.sustained.limit;
  const burstFull = burst >= take.burst.limit;
  if (!suspended && !sustainedFull && !burstFull) {
    const after: WindowCount = {
      ...before,
      sustainedStart: sustained === 0 ? now : before.sustainedStart,
      sustainedCount: sustained + 1,
      burstStart: burst === 0 ? now : before.burstStart,
      burstCount: burst + 1,
    };
    return { tally: after, taken: readWindow(after, take, now) };
  }
  if (suspended || take.abuse === undefined) return { tally: before, taken: refuse(before, take, now) };
  return refused(before, take, take.abuse, now);
}

/** Reads the windows at `now` without counting: for a request that passed, or that another of its takes refused. */
export function readWindow(tally: WindowCount | undefined, take: Take, now: number): WindowResult {
  const state = tally ?? FRESH;
  return {
    sustained: windowState(state.sustainedStart, state.sustainedCount, take.sustained, now),
    burst: windowState(state.burstStart, state.burstCount, take.burst, now),
    waitMs: 0,
  };
}

/** Undoes a counted request, in those of its windows that still last. */
export function giveBack(tally: WindowCount, take: Take, taken: WindowResult, now: number): WindowCount {
  const same = (start: number, was: WindowState, limit: Limit): boolean =>
    was.startedAt === start && now < start + limit.windowMs;
  return {
    ...tally,
    sustainedCount: same(tally.sustainedStart, taken.sustained, take.sustained)
      ? Math.max(0, tally.sustainedCount - 1)
      : tally.sustainedCount,
    burstCount: same(tally.burstStart, taken.burst, take.burst) ? Math.max(0, tally.burstCount - 1) : tally.burstCount,
  };
}

const FRESH: WindowCount = Object.freeze({
  sustainedStart: 0,
  sustainedCount: 0,
  burstStart: 0,
  burstCount: 0,
  refusedStart: 0,
  refusedCount: 0,
  suspendedUntil: Number.NEGATIVE_INFINITY,
  strikes: 0,
  struckAt: 0,
});

/** Returns the counted requests of a window; 0 when it is not open, or after all were given back. */
const used = (start: number, count: number, limit: Limit, now: number): number =>
  now < start + limit.windowMs ? count : 0;

function windowState(start: number, count: number, limit: Limit, now: number): WindowState {
  const taken = used(start, count, limit, now);
  if (taken === 0) return { remaining: limit.limit, resetMs: limit.windowMs };
  return {
    remaining: Math.max(0, limit.limit - taken),
    resetMs: start + limit.windowMs - now,
    startedAt: start,
  };
}

function refuse(tally: WindowCount, take: Take, now: number): WindowResult {
  const state = readWindow(tally, take, now);
  const suspendedMs = Math.max(0, tally.suspendedUntil - now);
  const sustainedMs = state.sustained.remaining > 0 ? 0 : state.sustained.resetMs;
  const burstMs = state.burst.remaining > 0 ? 0 : state.burst.resetMs;
  return {
    ...state,
    code: suspendedMs > 0 ? "ABUSE_SUSPEND" : sustainedMs > 0 ? "RATE_LIMIT_EXCEEDED" : "BURST_EXCEEDED",
    waitMs: Math.max(suspendedMs, sustainedMs, burstMs),
  };
}

/** Counts a refusal by a window, and suspends when there were too many. */
function refused(before: WindowCount, take: Take, abuse: Abuse, now: number): Decision {
  const open = before.refusedCount > 0 && now < before.refusedStart + abuse.windowMs;
  const refusedCount = open ? before.refusedCount + 1 : 1;
  const refusedStart = open ? before.refusedStart : now;
  if (refusedCount < abuse.refusals) {
    const after: WindowCount = { ...before, refusedStart, refusedCount };
    return { tally: after, taken: refuse(after, take, now) };
  }
  const strikes = (now < before.struckAt + abuse.forgetMs ? before.strikes : 0) + 1;
  const forMs = Math.min(abuse.maxSuspendMs, abuse.suspendMs * 2 ** (strikes - 1));
  const after: WindowCount = {
    ...before,
    refusedCount: 0,
    refusedStart,
    strikes,
    struckAt: now,
    suspendedUntil: now + forMs,
  };
  return { tally: after, taken: { ...refuse(after, take, now), suspended: { strikes, forMs } } };
}
