/** Deadlines for many attempts at the price of one timer: nearly all attempts end long before theirs. */
import { LinkedList, type Link } from "../../../core/model/linked-list.ts";
import type { Clock } from "../../../core/ports/clock.ts";

export interface Timed {
  /** Monotonic ms at which it is over; `Deadlines` sets it. */
  endsAt: number;
  /** Called once, when it is over. */
  expire(): void;
}

/** A sleep is at most this long, so that a step of the wall clock delays a deadline by the step at most. */
const LONGEST_MS = 1_000;

export class Deadlines {
  readonly #clock: Clock;
  /** By timeout: with one timeout, what began first ends first, so a line is always in order. */
  readonly #lines = new Map<number, LinkedList<Timed>>();
  readonly #end = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what `remove` is to be given. */
  add(timed: Timed, timeoutMs: number): Link<Timed> {
    timed.endsAt = this.#clock.monotonic() + timeoutMs;
    const line = this.#lines.get(timeoutMs);
    if (line !== undefined) return line.add(timed);
    const begun = new LinkedList<Timed>();
    const link = begun.add(timed);
    this.#lines.set(timeoutMs, begun);
    this.#watch(begun, timeoutMs).catch(() => undefined);
    return link;
  }

  remove(link: Link<Timed>, timeoutMs: number): void {
    this.#lines.get(timeoutMs)?.remove(link);
  }

  /** Nothing expires any more. */
  dispose(): void {
    this.#end.abort();
    this.#lines.clear();
  }

  async #watch(line: LinkedList<Timed>, timeoutMs: number): Promise<void> {
    for (;;) {
      const { first } = line;
      if (first === undefined) break;
      const left = first.endsAt - this.#clock.monotonic();
      if (left > 0) {
        await this.#clock.sleep(this.#clock.now() + Math.min(left, LONGEST_MS), this.#end.signal);
        continue;
      }
      line.takeFirst()?.expire();
    }
    this.#lines.delete(timeoutMs);
  }
}
