/**
 * The two-window rule of the limiter, as a pure decision over a small state. Every counters port keeps this state and
 * decides exactly so.
 *
 * A window is `[start, start + length)`, anchored at its first counted request. Both windows are checked, then both
 * committed. A refused request consumes nothing and moves no window.
 */

export interface Limit {
  readonly limit: number;
  readonly windowMs: number;
}

export interface Abuse {
  /** Refusals within `windowMs` that suspend. */
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

/** What is left of one window after the decision. `resetMs`: until it ends (a full window length when it is not open). */
export interface WindowState {
  readonly remaining: number;
  readonly resetMs: number;
}

export interface Taken {
  /** Absent when the request may pass. */
  readonly code?: LimitCode;
  readonly sustained: WindowState;
  readonly burst: WindowState;
  /** Longest of all waits, ms; 0 when it may pass. */
  readonly waitMs: number;
  /** Set on the very decision that began a suspension: to be stored. */
  readonly suspended?: { readonly strikes: number; readonly forMs: number };
}

/** State of one (endpoint, principal). Times are of the port's own monotonic clock, ms. */
export interface Tally {
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
