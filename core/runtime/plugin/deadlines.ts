/**
 * Watches calls that are under way. One slow tick watches all of them: a timer for each call takes 12 % more of the relay's CPU
 * an event (`npm run bench -- throughput`), and a plug-in has deadlines of its own that come first.
 */
import type { Clock } from "../../ports/clock.ts";

interface Watched<T> {
  /** The call must have ended after so many milliseconds; it is given a few seconds more. */
  readonly ms: number | undefined;
  /** The call must end soon after this aborts. It then rejects with the reason. */
  readonly signal: AbortSignal | undefined;
  /** Answers in place of a call that is late. May throw. */
  readonly late: (error: Error) => T;
  /** Called each time that a call without `ms` has not been answered for half a minute. */
  readonly waits: (error: Error) => void;
}

export interface Deadlines {
  /** Settles as the work does, or as `late` does when that takes too long. A later result is dropped. */
  bound<T>(work: PromiseLike<T>, watched: Watched<T>): Promise<T>;
}

interface Entry {
  until: number;
  /** Ticks that found it over its time. Only the third ends it: the process itself may have stood still. */
  over: number;
  readonly signal: AbortSignal | undefined;
  /** @returns whether it is watched further */
  readonly end: () => boolean;
}

const TICK_MS = 500;
const TICKS = 3;
/** What a call gets beyond its time, so that its own deadline comes first. */
const SPARE_MS = 1_500;
/** A call that may take as long as it takes is named each time that this has passed, ms. */
const NAMED_MS = 30_000;

export function createDeadlines(clock: Clock): Deadlines {
  const entries = new Set<Entry>();
  let ticking = false;

  async function tick(): Promise<void> {
    ticking = true;
    while (entries.size > 0) {
      await clock.sleep(clock.now() + TICK_MS);
      const now = clock.monotonic();
      for (const entry of entries)
        if ((now >= entry.until || entry.signal?.aborted === true) && ++entry.over >= TICKS && !entry.end())
          entries.delete(entry);
    }
    ticking = false;
  }

  return {
    bound<T>(work: PromiseLike<T>, { ms, signal, late, waits }: Watched<T>): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        const end = (): boolean => {
          if (ms === undefined) {
            Object.assign(entry, { until: clock.monotonic() + NAMED_MS, over: 0 });
            waits(new Error(`no answer for ${NAMED_MS / 1_000} s`));
            return true;
          }
          if (signal?.aborted) reject(signal.reason as Error);
          else resolve(Promise.try(late, new Error(`no answer within ${ms} ms`)));
          return false;
        };
        const entry: Entry = {
          until: clock.monotonic() + (ms === undefined ? NAMED_MS : ms + SPARE_MS),
          over: 0,
          signal,
          end,
        };
        entries.add(entry);
        if (!ticking) void tick();
        const settled =
          <V>(settle: (value: V) => void) =>
          (value: V): void => {
            entries.delete(entry);
            settle(value);
          };
        work.then(settled(resolve), settled(reject));
      });
    },
  };
}
