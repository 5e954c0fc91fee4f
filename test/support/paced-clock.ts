/** The system clock with waits of other lengths, so that a test need not sit through a pause of seconds, or can rule one out. */
import type { Clock } from "../../core/ports/clock.ts";
import { systemClock } from "../../core/runtime/clock.ts";

export interface PacedClock extends Clock {
  /** How long each wait was that was asked for, ms, in order. */
  readonly asked: readonly number[];
  /** How long each wait was asked for that ran out, ms, in order: one that is given up costs nobody its length. */
  readonly waited: readonly number[];
}

/** @param pace how long a wait that is asked for lasts, ms; times themselves stay those of the system */
export function pacedClock(pace: (ms: number) => number): PacedClock {
  const system = systemClock();
  const asked: number[] = [];
  const waited: number[] = [];
  return {
    now: system.now,
    monotonic: system.monotonic,
    async sleep(until, signal) {
      const now = system.now();
      asked.push(until - now);
      await system.sleep(now + pace(until - now), signal);
      waited.push(until - now);
    },
    asked,
    waited,
  };
}

/** Waits of so long and longer last a fiftieth; shorter ones, as those that bound a call, are as they are. */
export const hurried =
  (from: number) =>
  (ms: number): number =>
    ms >= from ? ms / 50 : ms;
