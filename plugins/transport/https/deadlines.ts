/** Watches the deadlines of many attempts with one timer: nearly all attempts end long before theirs. */
import type { Clock } from "../../../core/ports/clock.ts";

export interface Timed {
  /** Monotonic ms of the deadline; `Deadlines` sets it. */
  endsAt: number;
  /** Called once, at the deadline. */
  expire(): void;
}

/** Longest sleep, ms, so that a step of the wall clock delays a deadline by the step at most. */
const LONGEST_MS = 1_000;

export class Deadlines {
  readonly #clock: Clock;
  /** By timeout: with one timeout, attempts end in the order of their beginning, so a set is always sorted. */
  readonly #lines = new Map<number, Set<Timed>>();
  readonly #end = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Monotonic ms. */
  now(): number {
    return this.#clock.monotonic();
  }

  add(timed: Timed, timeoutMs: number): void {
    timed.endsAt = this.now() + timeoutMs;
    const line = this.#lines.get(timeoutMs);
    if (line !== undefined) return void line.add(timed);
    const begun = new Set([timed]);
    this.#lines.set(timeoutMs, begun);
    this.#watch(begun, timeoutMs).catch(() => undefined);
  }

  remove(timed: Timed, timeoutMs: number): void {
    this.#lines.get(timeoutMs)?.delete(timed);
  }

  /** After this nothing expires any more. */
  dispose(): void {
    this.#end.abort();
    this.#lines.clear();
  }

  async #watch(line: Set<Timed>, timeoutMs: number): Promise<void> {
    for (;;) {
      const [first] = line;
      if (first === undefined) break;
      const left = first.endsAt - this.now();
      if (left > 0) {
        await this.#clock.sleep(this.#clock.now() + Math.min(left, LONGEST_MS), this.#end.signal);
        continue;
      }
      line.delete(first);
      first.expire();
    }
    this.#lines.delete(timeoutMs);
  }
}
