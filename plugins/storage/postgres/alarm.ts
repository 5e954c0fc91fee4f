/** Wakes the claims of this node: at once, at the next known time, and from time to time in case a message is lost. */
import { Waiters } from "../../../core/lib/waiters.ts";
import type { Clock } from "../../../core/ports/clock.ts";

/** Longest time between two looks at the table, and while no bell can ring, ms. */
const LONGEST_MS = 5_000;
const DEAF_MS = 250;

export class Alarm {
  readonly #clock: Clock;
  readonly #listening: () => boolean;
  readonly #waiters = new Waiters();
  #rung = true;
  #closed = false;
  #timer: AbortController | undefined;
  /** Monotonic time at which something in the table may be due. */
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, listening: () => boolean) {
    this.#clock = clock;
    this.#listening = listening;
  }

  /** True when the table may have something that is due. */
  get due(): boolean {
    return this.#clock.monotonic() >= this.#nextAt;
  }

  /** Notes that a claim begins: what comes from now on rings again. */
  begin(): void {
    this.#rung = false;
  }

  /** Notes what the table had at a claim: the next in so many ms, or nothing. */
  reads(inMs: number | undefined): void {
    const longest = this.#listening() ? LONGEST_MS : DEAF_MS;
    this.#nextAt = this.#clock.monotonic() + Math.min(inMs ?? longest, longest);
  }

  /** Notes that the table has something that is due in so many ms. */
  noteDue(inMs: number): void {
    if (inMs <= 0) {
      this.#nextAt = Number.NEGATIVE_INFINITY;
      return this.ring();
    }
    this.#nextAt = Math.min(this.#nextAt, this.#clock.monotonic() + inMs);
    this.#arm();
  }

  /** Ends every wait, and the next one until a claim begins. */
  ring(): void {
    this.#rung = true;
    this.#timer?.abort();
    this.#waiters.wake();
  }

  wait(signal: AbortSignal): Promise<void> {
    if (this.#rung || this.#closed) return Promise.resolve();
    const woken = this.#waiters.wait(signal);
    this.#arm();
    return woken;
  }

  close(): void {
    this.#closed = true;
    this.ring();
  }

  #arm(): void {
    const clock = this.#clock;
    this.#timer?.abort();
    if (this.#waiters.size === 0) return;
    this.#timer = new AbortController();
    const left = Math.max(0, this.#nextAt - clock.monotonic());
    clock.sleep(clock.now() + left, this.#timer.signal).then(
      () => this.ring(),
      () => undefined,
    );
  }
}
