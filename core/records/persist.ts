/** Writes a result that the world has already seen: it retries until the storage takes it or the relay stops. */
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";

interface PersistDeps {
  readonly clock: Clock;
  readonly log: Log;
}

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;

/**
 * Repeats `write` while the storage cannot take it. Repeating is safe, because ids are derived.
 * @throws what `write` throws other than StorageError, or the signal's reason
 */
export async function persist<T>(write: () => Promise<T>, signal: AbortSignal, deps: PersistDeps): Promise<T> {
  try {
    return await write();
  } catch (error) {
    return await persistAfter(error, write, signal, deps);
  }
}

/**
 * Continues as `persist` after `write` has failed once with `error`.
 * @throws as `persist`; at once, when waiting does not help against `error`
 */
export async function persistAfter<T>(
  error: unknown,
  write: () => Promise<T>,
  signal: AbortSignal,
  { clock, log }: PersistDeps,
): Promise<T> {
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    if (!(error instanceof StorageError) || error.fault === "broken") throw error;
    if (waitMs === FIRST_WAIT_MS) log.warn("a result waits for the storage", { fault: error.fault });
    await clock.sleep(clock.now() + waitMs, signal);
    try {
      return await write();
    } catch (next) {
      error = next;
    }
  }
}
