/** Deadlines for many attempts at the price of one timer: nearly all attempts end long before theirs. */
import type { Ticket } from "../../../core/model/ticket.ts";
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
  readonly #lines = new Map<number, Set<Ticket<Timed>>>();
  readonly #end = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param ticket to be emptied when it is removed */
  add(ticket: Ticket<Timed>, timeoutMs: number): void {
    if (ticket.of !== undefined) ticket.of.endsAt = this.#clock.monotonic() + timeoutMs;
    const line = this.#lines.get(timeoutMs);
    if (line !== undefined) return void line.add(ticket);
    const begun = new Set([ticket]);
    this.#lines.set(timeoutMs, begun);
    this.#watch(begun, timeoutMs).catch(() => undefined);
  }

  remove(ticket: Ticket<Timed>, timeoutMs: number): void {
    this.#lines.get(timeoutMs)?.delete(ticket);
  }

  /** Nothing expires any more. */
  dispose(): void {
    this.#end.abort();
    this.#lines.clear();
  }

  async #watch(line: Set<Ticket<Timed>>, timeoutMs: number): Promise<void> {
    for (;;) {
      const [first] = line;
      if (first === undefined) break;
      const left = (first.of?.endsAt ?? 0) - this.#clock.monotonic();
      if (left > 0) {
        await this.#clock.sleep(this.#clock.now() + Math.min(left, LONGEST_MS), this.#end.signal);
        continue;
      }
      line.delete(first);
      first.of?.expire();
    }
    this.#lines.delete(timeoutMs);
  }
}
