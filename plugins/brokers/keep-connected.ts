/** Keeps a broker connected: runs one session with it after another, with growing waits between failures. */
import { causeOf } from "../../core/lib/reason.ts";
import type { Clock } from "../../core/ports/clock.ts";

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
/** A session that worked for so long is no failure when it ends, ms. */
const STEADY_MS = 5_000;

interface Keeper {
  /** Aborts when the connection is needed no more. */
  readonly stopping: AbortSignal;
  /** Called with why there is no connection; `undefined`: there is one. */
  away(reason: string | undefined): void;
  /** Longest wait between two sessions, ms. @default 10_000 */
  readonly longestMs?: number;
}

/**
 * Resolves once `stopping` aborts and the session has ended.
 * @param session works until the signal aborts or the broker fails, and calls `connected` once it can work. It may resolve
 * or reject; it leaves nothing open. The signal is its own, so that its listeners go with it.
 */
export async function keepConnected(
  { stopping, away, longestMs = LONGEST_WAIT_MS }: Keeper,
  clock: Pick<Clock, "now" | "monotonic" | "sleep">,
  session: (signal: AbortSignal, connected: () => void) => Promise<void>,
): Promise<void> {
  let failures = 0;
  while (!stopping.aborted) {
    let connectedAt = Infinity;
    try {
      await session(AbortSignal.any([stopping]), () => {
        connectedAt = clock.monotonic();
        away(undefined);
      });
    } catch (error) {
      if (stopping.aborted) return;
      away(causeOf(error));
    }
    // A session that connects and then fails, for example for want of a right, waits longer each time as well.
    if (clock.monotonic() - connectedAt >= STEADY_MS) failures = 0;
    const waitMs = Math.min(longestMs, FIRST_WAIT_MS * 2 ** Math.min(failures++, 16));
    await clock.sleep(clock.now() + waitMs, stopping).catch(() => undefined);
  }
}
