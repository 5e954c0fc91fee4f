/** Gives the work of a command a time within which it must end. */
import type { Clock } from "../../core/ports/clock.ts";

/**
 * Runs `work` with a signal that aborts `ms` milliseconds later. Once `work` has ended, the signal aborts no more.
 * @throws Error `none within … s` when the work fails after that; else what the work throws
 */
export async function withDeadline<T>(clock: Clock, ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const [late, over] = [new AbortController(), new AbortController()];
  const wait = clock.sleep(clock.now() + ms, over.signal).then(
    () => late.abort(new Error(`none within ${ms / 1_000} s`)),
    () => undefined,
  );
  try {
    return await work(late.signal);
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error;
  } finally {
    over.abort();
    await wait;
  }
}
