/**
 * How long this process itself kept everything waiting: a machine without a core to spare makes every receiver look slow.
 * Measured by timers that are late, while there is something to measure.
 */
import type { Clock } from "../ports/clock.ts";

/** Between two looks, ms. */
const STEP_MS = 100;

export interface ProcessLag {
  /** Something is to be measured from now on. */
  watch(): void;
  /** All lag until `now` (monotonic ms), ms. What lies between two readings is the lag between them. */
  total(now: number): number;
}

/** @param needed asked at each look: whether there is still something to measure */
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
    // The timer may be late just now.
    total: (now) => sum + (lookedAt === undefined ? 0 : late(lookedAt, now)),
  };
}
