/**
 * Turns: what is being stored at once is bounded, and what waits for that is served by API key in turn. Commits are
 * carried out in the order in which they come: without turns one key's large batches make every other key wait for all of
 * them.
 */
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";

/** Events under way at once; an event of more than `EVENT_CHARS` counts for several. One request may be larger. */
const UNDER_WAY = 2_000;
const EVENT_CHARS = 4_096;
/** A key whose first request has waited so long, ms, is to publish later. */
const SLOW_TURN_MS = 2_000;
const RETRY_AFTER_S = 2;

export interface CommitTurns {
  /** @throws Problem PROVIDER_BACKPRESSURE while the key has waited too long for its turn */
  admit(keyId: string): void;
  /** Resolves when it is the key's turn; at once, without a promise, when nobody has to wait. */
  enter(keyId: string, weight: number): Promise<void> | undefined;
  /** What entered is stored, or never will be. */
  leave(weight: number): void;
}

/** How much a request counts for. */
export const weightOf = (events: number, chars: number): number => Math.max(events, Math.ceil(chars / EVENT_CHARS));

interface Waiting {
  readonly weight: number;
  /** Monotonic ms. */
  readonly since: number;
  readonly go: () => void;
}

export function createCommitTurns(clock: Pick<Clock, "monotonic">, most: number = UNDER_WAY): CommitTurns {
  /** By key, in the order in which they are served. Never empty lines. */
  const lines = new Map<string, Waiting[]>();
  let underWay = 0;

  const fits = (weight: number): boolean => underWay === 0 || underWay + weight <= most;

  function serve(): void {
    for (const [keyId, line] of lines) {
      const first = line[0] as Waiting;
      if (!fits(first.weight)) return;
      line.shift();
      lines.delete(keyId);
      if (line.length > 0) lines.set(keyId, line);
      underWay += first.weight;
      first.go();
    }
  }

  return {
    admit(keyId) {
      const first = lines.size === 0 ? undefined : lines.get(keyId)?.[0];
      if (first === undefined || clock.monotonic() - first.since <= SLOW_TURN_MS) return;
      throw new Problem("PROVIDER_BACKPRESSURE", "Too much is being published on this API key. Publish again later.", {
        retryAfter: RETRY_AFTER_S,
      });
    },
    enter(keyId, weight) {
      if (lines.size === 0 && fits(weight)) {
        underWay += weight;
        return undefined;
      }
      return new Promise((go) => {
        const line = lines.get(keyId) ?? [];
        if (line.length === 0) lines.set(keyId, line);
        line.push({ weight, since: clock.monotonic(), go });
        // It may be the only one that fits.
        serve();
      });
    },
    leave(weight) {
      underWay -= weight;
      if (lines.size > 0) serve();
    },
  };
}
