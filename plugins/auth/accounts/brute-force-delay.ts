/** Slows down guesses at one account, from any caller. No account is locked; unknown ones are slowed alike. */
import type { Clock } from "../../../core/ports/clock.ts";
import { Problem } from "../../../core/model/problem.ts";

export interface BruteForceDelay {
  /** Waits as long as the failures of this account require. @throws Problem PROVIDER_BACKPRESSURE when too many wait */
  wait(account: string, signal: AbortSignal): Promise<void>;
  failed(account: string): void;
  succeeded(account: string): void;
}

const FREE = 3;
const FIRST_MS = 250;
const LONGEST_MS = 4_000;
/** Failures count until there was none for this long. */
const FORGET_MS = 900_000;
const ACCOUNTS = 10_000;
const WAITING = 1_000;

export function createBruteForceDelay(clock: Clock): BruteForceDelay {
  const failures = new Map<string, { readonly count: number; readonly at: number }>();
  let waiting = 0;

  function counted(account: string): number {
    const found = failures.get(account);
    return found !== undefined && clock.monotonic() - found.at < FORGET_MS ? found.count : 0;
  }

  return {
    async wait(account, signal) {
      const count = counted(account);
      if (count < FREE) return;
      if (waiting >= WAITING)
        throw new Problem("PROVIDER_BACKPRESSURE", "Too many logins at once. Try again soon.", { retryAfter: 5 });
      waiting++;
      try {
        await clock.sleep(clock.now() + Math.min(LONGEST_MS, FIRST_MS * 2 ** (count - FREE)), signal);
      } finally {
        waiting--;
      }
    },
    failed(account) {
      const count = Math.min(30, counted(account) + 1);
      failures.delete(account);
      const oldest = failures.size >= ACCOUNTS ? failures.keys().next() : undefined;
      if (oldest !== undefined && !oldest.done) failures.delete(oldest.value);
      failures.set(account, { count, at: clock.monotonic() });
    },
    succeeded: (account) => void failures.delete(account),
  };
}
