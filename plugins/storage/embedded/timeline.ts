/** The queue's own time, which runs evenly however the wall clock is set, and the meaning of stored times in it. */
import { neverTried, type Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";

/** A clock that is off by more was set, ms; a smaller drift is followed. */
const STEP_MS = 1_000;
/** The longest wait that a policy may ask for, ms: a day, with its jitter. For lines that do not state their wait. */
const LONGEST_WAIT_MS = 95_040_000;

export type Timeline = ReturnType<typeof timeline>;

export function timeline(clock: Pick<Clock, "now" | "monotonic">) {
  let ahead = 0;
  let steps = 0;
  let last = clock.now();
  /** When the wall clock was read for the last time before it was set. What it wrote was written by then. */
  let setAt = last;
  /** How far the wall clock was ahead of the monotonic one when both were last read. */
  let apart = last - clock.monotonic();

  /** Returns epoch ms of the wall clock until somebody sets it. */
  function now(): number {
    const wall = clock.now();
    const apartNow = wall - clock.monotonic();
    const drift = apartNow - apart;
    apart = apartNow;
    if (Math.abs(drift) > STEP_MS) {
      ahead += Math.round(drift);
      setAt = last;
      steps++;
    }
    return (last = wall - ahead);
  }

  /** Whether the line is further away than its own wait: a clock that was ahead has written it. */
  function isImpossible(due: Due): boolean {
    const latest = now() + longestWait(due);
    return due.dueAt - ahead > latest + STEP_MS;
  }

  return {
    now,
    /** Returns how far wall-clock times are ahead of it, ms. */
    ahead: () => ahead,
    /** Returns how often the wall clock was set. */
    steps: () => steps,
    isImpossible,
    /** Returns when a line may be claimed. An impossible one waits from when the clock was set, or the queue was made. */
    at(due: Due): number {
      const current = now();
      const at = due.dueAt - ahead;
      if (at <= current) return at;
      const wait = longestWait(due);
      return isImpossible(due) ? setAt + wait : Math.min(at, current + wait);
    },
    /** Converts a wall-clock time that was made just now. */
    soon(wallMs: number): number {
      const current = now();
      return current + Math.min(wallMs - ahead - current, LONGEST_WAIT_MS);
    },
    /** Converts to the wall-clock time that the clock's `sleep` takes. */
    wall: (at: number) => clock.now() + (at - now()),
  };
}

/** Returns how long a line may have had to wait when it was written, ms. */
const longestWait = (due: Due): number => (neverTried(due) ? 0 : (due.waitMs ?? LONGEST_WAIT_MS));
