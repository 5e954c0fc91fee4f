/**
 * Gives API keys turns at the storage: bounds what is being stored at once, and serves waiting keys in turn. The
 * storage commits in order of arrival, so without turns the large batches of one key would delay every other key.
 */
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";

/** Most events under way at once; an event of more than `EVENT_CHARS` counts as several. A single request may be larger. */
const UNDER_WAY = 2_000;
const EVENT_CHARS = 4_096;
/** A key whose first request has waited this long, ms, is refused until later. */
const SLOW_TURN_MS = 2_000;
const RETRY_AFTER_S = 2;

interface CommitTurns {
  /** @throws Problem PROVIDER_BACKPRESSURE while the key has waited too long for its turn */
  admit(keyId: string): void;
  /** Resolves at the key's turn; returns no promise when there is no wait. */
  enter(keyId: string, weight: number): Promise<void> | undefined;
  /** Frees the room of a request that is stored or has failed. */
  leave(weight: number): void;
}

/** Returns how much a request counts. */
export const weightOf = (events: number, chars: number): number => Math.max(events, Math.ceil(chars / EVENT_CHARS));

interface Waiting {
  readonly weight: number;
  /** Monotonic ms. */
  readonly since: number;
  readonly go: () => void;
}

export function createCommitTurns(clock: Pick<Clock, "monotonic">, most: number = UNDER_WAY): CommitTurns {
  /** Waiting requests by key, in the order of service. Has no empty lists. */
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
