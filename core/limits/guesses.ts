/** Counts guesses at codes: wrong ones suspend the caller, whatever the limits table and the `abuse` rule say. */
import { Problem } from "../model/problem.ts";
import type { Abuse, Take } from "../model/windows.ts";
import type { Guess } from "../ports/plugin.ts";
import type { Counters } from "../ports/storage.ts";
import type { AbuseOptions } from "../ports/plan.ts";
import { routeShape } from "./route-limits.ts";
import { counterKey } from "./takes.ts";

/** The rule of wrong codes. `abuse` in the config may make it stricter, never weaker. */
export const GUESSES = {
  failures: 10,
  failuresWindowMs: 600_000,
  suspendMs: 300_000,
  maxSuspendMs: 3_600_000,
  forgetMs: 86_400_000,
} as const;

/** Most guesses of one caller under way on all nodes. One of a dead node is forgotten after the window. */
const AT_ONCE = { limit: 3, windowMs: 5_000 };

const PREFIX = "codes ";
/** Returns true for the key of a counter of wrong codes. */
export const isGuessKey = (key: string): boolean => key.startsWith(PREFIX);

/** A window that never fills: only a suspension refuses. */
const ENDLESS = { limit: Number.MAX_SAFE_INTEGER, windowMs: 5_000 };
/** A window that is always full: each take on it is a refusal, and enough refusals suspend. */
const CLOSED = { limit: 0, windowMs: 5_000 };

function ruleOf(abuse: AbuseOptions | false): Abuse {
  const given = abuse === false ? GUESSES : abuse;
  return {
    refusals: Math.min(GUESSES.failures, given.failures),
    windowMs: Math.max(GUESSES.failuresWindowMs, given.failuresWindowMs),
    suspendMs: Math.max(GUESSES.suspendMs, given.suspendMs),
    maxSuspendMs: Math.max(GUESSES.maxSuspendMs, given.maxSuspendMs),
    forgetMs: Math.max(GUESSES.forgetMs, given.forgetMs),
  };
}

/** The code and the wait of a refused take; no code when it passed. */
interface Asked {
  readonly code?: string;
  readonly retryAfter?: number;
}

/**
 * @param take decides about a take, and resolves after a suspension that it begins is stored
 * @param abuse the current rule
 * @param counters hold the guesses that are under way
 */
export function createGuess(
  take: (take: Take) => Promise<Asked>,
  abuse: () => AbuseOptions | false,
  counters: Pick<Counters, "take" | "giveBack">,
): Guess {
  return async (place, who, attempt) => {
    const key = counterKey(`${PREFIX}${routeShape(place)}`, who);
    const underWay: readonly Take[] = [
      { key: counterKey(`${PREFIX}at once ${routeShape(place)}`, who), sustained: ENDLESS, burst: AT_ONCE },
    ];
    const held = await counters.take(underWay);
    if (held[0]?.code !== undefined)
      throw new Problem("BURST_EXCEEDED", "Several codes are being checked. Send one at a time.", { retryAfter: 1 });
    try {
      const rule = ruleOf(abuse());
      const { code, retryAfter } = await take({ key, sustained: ENDLESS, burst: ENDLESS, abuse: rule });
      if (code !== undefined)
        throw new Problem("ABUSE_SUSPEND", "Too many wrong codes. Wait as long as Retry-After says.", { retryAfter });
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof Problem && error.code === "UNAUTHENTICATED")
          await take({ key, sustained: CLOSED, burst: CLOSED, abuse: rule });
        throw error;
      }
    } finally {
      // One that cannot be given back is forgotten after the window.
      await Promise.resolve(counters.giveBack(underWay, held)).catch(() => undefined);
    }
  };
}
