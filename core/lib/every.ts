/** Does work by the clock. A schedule that a person writes is a cron's: see `ticks.ts`. */
import type { Sleeper } from "./within.ts";

/**
 * Does the work `ms` milliseconds from now, and again so long after each time that it has ended. Resolves when the signal
 * aborts: work that is under way ends first.
 * @throws what the work throws
 */
export async function every(clock: Sleeper, ms: number, work: () => unknown, signal: AbortSignal): Promise<void> {
  for (;;) {
    await clock.sleep(clock.now() + ms, signal).catch(() => undefined);
    if (signal.aborted) return;
    await work();
  }
}
