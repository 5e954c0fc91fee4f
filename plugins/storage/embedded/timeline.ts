/** The queue's own time, which runs evenly however the wall clock is set, and the meaning of stored times in it. */
import { neverTried, type Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";

/** A clock that is off by more was set, ms; a smaller drift is followed. */
const STEP_MS = 1_000;
/** The longest wait that a policy may ask for, ms: a day, with its jitter. For lines that do not state their wait. */
const LONGEST_WAIT_MS = 95_040_000;

export interface Timeline {
  /** Milliseconds: epoch ms of the wall clock until somebody sets it. */
  now(): number;
  /** Returns how far wall-clock times are ahead of it, ms. */
  ahead(): number;
  /** Returns how often the wall clock was set. */
  steps(): number;
  /** Returns when a line may be claimed, never further away than the line's own wait. */
  at(due: Due): number;
  /** Converts a wall-clock time that was made just now. */
  soon(wallMs: number): number;
  /** Converts to the wall-clock time that the clock's `sleep` takes. */
  wall(at: number): number;
}

export function timeline(clock: Pick<Clock, "now" | "monotonic">): Timeline {
  let ahead = 0;
  let steps = 0;
  /** How far the wall clock was ahead of the monotonic one when both were last read. */
  let apart = clock.now() - clock.monotonic();

  function now(): number {
    const wall = clock.now();
    const apartNow = wall - clock.monotonic();
    const drift = apartNow - apart;
    apart = apartNow;
    if (Math.abs(drift) > STEP_MS) {
      ahead += Math.round(drift);
      steps++;
    }
    return wall - ahead;
  }

  return {
    now,
    ahead: () => ahead,
    steps: () => steps,
    at(due) {
      const current = now();
      const at = due.dueAt - ahead;
      return at <= current ? at : Math.min(at, current + longestWait(due));
    },
    soon(wallMs) {
      const current = now();
      return current + Math.min(wallMs - ahead - current, LONGEST_WAIT_MS);
    },
    wall: (at) => clock.now() + (at - now()),
  };
}

/** Returns how long a line may have had to wait when it was written, ms. */
export const longestWait = (due: Due): number => (neverTried(due) ? 0 : (due.waitMs ?? LONGEST_WAIT_MS));
