/** Builds the limit headers of an answer: `X-RateLimit-*`, `X-Burst-*` and those of draft-ietf-httpapi-ratelimit-headers. */
import type { LimitCode, Take, WindowResult, WindowState } from "../model/windows.ts";

/** One window as an answer shows it. */
interface Shown extends WindowState {
  readonly limit: number;
  readonly windowMs: number;
}

interface LimitFinding {
  readonly code?: LimitCode;
  readonly waitMs: number;
  readonly sustained: Shown;
  readonly burst: Shown;
}

/** The combined result of several takes. `returned`: what it is once the slots have been given back. */
interface Combined extends LimitFinding {
  readonly returned: LimitFinding;
}

const RANK: Readonly<Record<LimitCode, number>> = { ABUSE_SUSPEND: 3, RATE_LIMIT_EXCEEDED: 2, BURST_EXCEEDED: 1 };

/** Combines takes: the code of highest precedence, the longest wait, and for each window the one with the least left. */
export function worst(takes: readonly Take[], taken: readonly WindowResult[]): Combined {
  let code: LimitCode | undefined;
  let waitMs = 0;
  let sustained: Shown | undefined;
  let burst: Shown | undefined;
  for (const [i, one] of taken.entries()) {
    const take = takes[i] as Take;
    if (one.code !== undefined && (code === undefined || RANK[one.code] > RANK[code])) code = one.code;
    waitMs = Math.max(waitMs, one.waitMs);
    if (sustained === undefined || one.sustained.remaining < sustained.remaining)
      sustained = { ...take.sustained, ...one.sustained };
    if (burst === undefined || one.burst.remaining < burst.remaining) burst = { ...take.burst, ...one.burst };
  }
  const found = { code, waitMs, sustained: sustained as Shown, burst: burst as Shown };
  return {
    ...found,
    get returned() {
      return { code, waitMs, sustained: oneMore(found.sustained), burst: oneMore(found.burst) };
    },
  };
}

const oneMore = (shown: Shown): Shown => {
  const remaining = Math.min(shown.limit, shown.remaining + 1);
  return { ...shown, remaining, resetMs: remaining === shown.limit ? shown.windowMs : shown.resetMs };
};

/** @param now wall clock, epoch ms: resets are in epoch seconds, rounded up */
export function limitHeaders({ sustained, burst }: LimitFinding, now: number): Record<string, string> {
  return {
    "X-RateLimit-Limit": String(sustained.limit),
    "X-RateLimit-Remaining": String(sustained.remaining),
    "X-RateLimit-Reset": String(Math.ceil((now + sustained.resetMs) / 1_000)),
    "X-Burst-Limit": String(burst.limit),
    "X-Burst-Remaining": String(burst.remaining),
    "X-Burst-Reset": String(Math.ceil((now + burst.resetMs) / 1_000)),
    "RateLimit-Policy": `"sustained";q=${sustained.limit};w=${sustained.windowMs / 1_000}, "burst";q=${burst.limit};w=${burst.windowMs / 1_000}`,
    RateLimit: `"sustained";r=${sustained.remaining};t=${seconds(sustained)}, "burst";r=${burst.remaining};t=${seconds(burst)}`,
  };
}

const seconds = ({ resetMs }: Shown): number => Math.ceil(resetMs / 1_000);
