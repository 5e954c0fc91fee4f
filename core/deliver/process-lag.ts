/**
 * Measures how long this process itself delayed everything: a busy machine makes every receiver look slow. It compares
 * timers with their due time, while there is something to measure.
 */
import type { Clock } from "../ports/clock.ts";

/** Time between two measurements, ms. */
const STEP_MS = 100;

export interface ProcessLag {
  /** Starts measuring. */
  watch(): void;
  /** Returns all lag until `now` (monotonic ms), ms. The difference of two readings is the lag between them. */
  total(now: number): number;
}

/** @param needed returns whether there is still something to measure */
export function createProcessLag(clock: Pick<Clock, "now" | "monotonic" | "sleep">, needed: () => boolean): ProcessLag {
  let sum = 0;
  let lookedAt: number | undefined;

  const late = (from: number, now: number): number => Math.max(0, now - from - STEP_MS);

  async function run(): Promise<void> {
    while (needed()) {
      const from = clock.monotonic();
      lookedAt = from;
      await clock.sleep(clock.now() + STEP_MS);
      sum += late(from, clock.monotonic());
    }
    lookedAt = undefined;
  }

  return {
    watch() {
      if (lookedAt === undefined) void run();
    },
    // The timer may be late at this moment.
    total: (now) => sum + (lookedAt === undefined ? 0 : late(lookedAt, now)),
  };
}
