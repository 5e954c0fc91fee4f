/** Slows down guesses at one account, from any caller. No account is locked; unknown ones are slowed alike. */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { Problem } from "../../../core/model/problem.ts";

const FREE = 3;
const FIRST_MS = 250;
const LONGEST_MS = 4_000;
/** Failures count until there was none for this long. */
const FORGET_MS = 900_000;
const ACCOUNTS = 10_000;
const WAITING = 1_000;

export class BruteForceDelay {
  readonly #clock: Clock;
  readonly #failures = new Map<string, { readonly count: number; readonly at: number }>();
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Waits as long as the failures of this account require. @throws Problem PROVIDER_BACKPRESSURE when too many wait */
  async wait(account: string, signal: AbortSignal): Promise<void> {
    const count = this.#count(account);
    if (count < FREE) return;
    if (this.#waiting >= WAITING)
      throw new Problem("PROVIDER_BACKPRESSURE", "Too many logins at once. Try again soon.", { retryAfter: 5 });
    this.#waiting++;
    try {
      await this.#clock.sleep(this.#clock.now() + Math.min(LONGEST_MS, FIRST_MS * 2 ** (count - FREE)), signal);
    } finally {
      this.#waiting--;
    }
  }

  failed(account: string): void {
    const count = Math.min(30, this.#count(account) + 1);
    setNewest(this.#failures, account, { count, at: this.#clock.monotonic() }, ACCOUNTS);
  }

  succeeded(account: string): void {
    this.#failures.delete(account);
  }

  #count(account: string): number {
    const found = this.#failures.get(account);
    return found !== undefined && this.#clock.monotonic() - found.at < FORGET_MS ? found.count : 0;
  }
}
