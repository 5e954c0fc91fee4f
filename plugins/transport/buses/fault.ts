/** What keeps a bus from taking anything though it is connected, for `/readyz`: known from the sends, and forgotten with time. */
import type { Clock } from "../../../core/ports/clock.ts";

/** How long a fault counts after the last send that met it, ms: longer than a subscription is paused for it. */
const LASTS_MS = 30_000;

export class BusFault {
  readonly #clock: Clock;
  #words: string | undefined;
  #at = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes it. Returns true when it is news. */
  note(words: string): boolean {
    const news = this.words() !== words;
    this.#words = words;
    this.#at = this.#clock.monotonic();
    return news;
  }

  /** A send went well. */
  clear(): void {
    this.#words = undefined;
  }

  words(): string | undefined {
    if (this.#words === undefined || this.#clock.monotonic() - this.#at > LASTS_MS) return undefined;
    return this.#words;
  }
}
