/** The queue's own time, which runs evenly however the wall clock is set, and the meaning of stored times in it. */
import { neverTried, type Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";

/** A clock that is off by more was set, ms; a smaller drift is followed. */
const STEP_MS = 1_000;
/** The longest wait that a policy may ask for, ms: a day, with its jitter. For lines that do not state their wait. */
const LONGEST_WAIT_MS = 95_040_000;

export class Timeline {
  /** How far wall-clock times are ahead of it, ms. */
  ahead = 0;
  /** How often the wall clock was set. */
  steps = 0;
  readonly #clock: Clock;
  #last: number;
  /** When the wall clock was read for the last time before it was set. What it wrote was written by then. */
  #setAt: number;
  /** How far the wall clock was ahead of the monotonic one when both were last read. */
  #apart: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last = clock.now();
    this.#setAt = this.#last;
    this.#apart = this.#last - clock.monotonic();
  }

  /** Returns epoch ms of the wall clock until somebody sets it. */
  now(): number {
    const wall = this.#clock.now();
    const apart = wall - this.#clock.monotonic();
    const drift = apart - this.#apart;
    this.#apart = apart;
    if (Math.abs(drift) > STEP_MS) {
      this.ahead += Math.round(drift);
      this.#setAt = this.#last;
      this.steps++;
    }
    return (this.#last = wall - this.ahead);
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  /** Returns true when the line is further away than its own wait: a clock that was ahead has written it. */
  isImpossible(due: Due): boolean {
    const latest = this.now() + longestWait(due);
    return due.dueAt - this.ahead > latest + STEP_MS;
  }

  /** Returns when a line may be claimed. An impossible one waits from when the clock was set, or the queue was made. */
  at(due: Due): number {
    const current = this.now();
    const at = due.dueAt - this.ahead;
    if (at <= current) return at;
    const wait = longestWait(due);
    return this.isImpossible(due) ? this.#setAt + wait : Math.min(at, current + wait);
  }

  /** Converts a wall-clock time that was made just now. */
  soon(wallMs: number): number {
    const current = this.now();
    return current + Math.min(wallMs - this.ahead - current, LONGEST_WAIT_MS);
  }

  /** Resolves at that time. Rejects when the signal aborts. */
  sleep(until: number, signal: AbortSignal): Promise<void> {
    return this.#clock.sleep(this.#clock.now() + (until - this.now()), signal);
  }
}

/** Returns how long a line may have had to wait when it was written, ms. */
const longestWait = (due: Due): number => (neverTried(due) ? 0 : (due.waitMs ?? LONGEST_WAIT_MS));
