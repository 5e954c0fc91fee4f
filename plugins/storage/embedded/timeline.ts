/** The queue's own time, which goes on as time does however the wall clock is set, and what stored times mean by it. */
import { neverTried, type Due } from "../../../core/model/delivery.ts";
import type { Clock } from "../../../core/ports/clock.ts";

/** A clock that is off by more was set, ms; one that drifts by less is followed. */
const STEP_MS = 1_000;
/** The longest wait that a policy may ask for, ms: a day, with its jitter. For lines that do not say how long theirs is. */
const LONGEST_WAIT_MS = 95_040_000;

export interface Timeline {
  /** Milliseconds: epoch ms of the wall clock as long as nobody sets that. */
  now(): number;
  /** What wall-clock times are ahead of it, ms. */
  ahead(): number;
  /** How often the wall clock was set. */
  steps(): number;
  /** When a line may be claimed. It is never further away than the line's own wait. */
  at(due: Due): number;
  /** Of a wall-clock time that was made just now. */
  soon(wallMs: number): number;
  /** For the clock's sleep: the wall-clock time until which to sleep. */
  wall(at: number): number;
}

export function timeline(clock: Pick<Clock, "now" | "monotonic">): Timeline {
  let ahead = 0;
  let steps = 0;
  /** What the wall clock was ahead of the monotonic one when both were read last. */
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

/** How long a line may have had to wait when it was written, ms. */
export const longestWait = (due: Due): number => (neverTried(due) ? 0 : (due.waitMs ?? LONGEST_WAIT_MS));
