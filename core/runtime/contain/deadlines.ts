/**
 * Ends waits for plug-ins that never answer. One slow tick watches all of them: a timer for each call takes 12 % more of the
 * relay's CPU an event (`npm run bench -- throughput`), and a plug-in has deadlines of its own that come first.
 */
import type { Clock } from "../../ports/clock.ts";

interface Watched<T> {
  /** The work must have ended after so many milliseconds; it is given a few seconds more. */
  readonly ms: number;
  /** Answers in its place. May throw. */
  readonly late: () => T;
  /** The work must end soon after this aborts. It then rejects with the reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called with what the work throws; what it returns or throws is thrown. */
  readonly failed?: (error: unknown) => unknown;
}

export interface CallDeadlines {
  /** Settles as the work does, or as `late` does when that takes too long. A later result is dropped. */
  bound<T>(work: PromiseLike<T> | T, watched: Watched<T>): Promise<T>;
}

const TICK_MS = 500;
/** What the work gets beyond its time, so that its own deadline comes first. */
const SPARE_MS = 1_500;

interface Entry {
  readonly until: number;
  readonly signal: AbortSignal | undefined;
  /** Ticks that found it over its time or aborted. Only the third ends it: the process itself may have stood still. */
  over: number;
  readonly late: () => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (reason: unknown) => void;
}
const TICKS = 3;

export function createDeadlines(clock: Clock): CallDeadlines {
  const entries = new Set<Entry>();
  let ticking = false;

  async function tick(): Promise<void> {
    ticking = true;
    while (entries.size > 0) {
      await clock.sleep(clock.now() + TICK_MS);
      const now = clock.monotonic();
      for (const entry of entries) {
        if ((now >= entry.until || entry.signal?.aborted === true) && ++entry.over >= TICKS) end(entry);
      }
    }
    ticking = false;
  }

  function end(entry: Entry): void {
    const { signal, late, resolve, reject } = entry;
    entries.delete(entry);
    try {
      if (signal?.aborted) reject(signal.reason);
      else resolve(late() as never);
    } catch (error) {
      reject(error);
    }
  }

  return {
    bound<T>(work: PromiseLike<T> | T, { ms, late, signal, failed }: Watched<T>): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        const entry = { until: clock.monotonic() + ms + SPARE_MS, signal, over: 0, late, resolve, reject };
        entries.add(entry);
        if (!ticking) void tick();
        Promise.resolve(work).then(
          (value) => {
            entries.delete(entry);
            resolve(value);
          },
          (error: unknown) => {
            entries.delete(entry);
            try {
              reject((failed === undefined ? error : failed(error)) as Error);
            } catch (other) {
              reject(other as Error);
            }
          },
        );
      });
    },
  };
}
