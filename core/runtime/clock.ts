/** The system clock: the one place in the relay that reads time and sets timers. */
import type { Clock } from "../ports/clock.ts";

/** Longest single timer, ms: one of Node's holds at most 2^31-1 ms, so a longer wait is made of several. */
const LONGEST_MS = 60_000;

/** The machine's own time. Sleeps do not keep the process alive. */
export function systemClock(): Clock {
  return { now: () => Date.now(), monotonic: () => performance.now(), sleep };
}

function sleep(until: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // The wall clock first: a thread that is held up between the two readings wakes late by that, and never early.
    const asked = until - Date.now();
    const ends = performance.now() + asked;
    let timer: NodeJS.Timeout | undefined;
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    if (signal?.aborted) return aborted();
    const look = (): void => {
      const left = ends - performance.now();
      if (left > 0) {
        timer = setTimeout(look, Math.min(left, LONGEST_MS)).unref();
        return;
      }
      signal?.removeEventListener("abort", aborted);
      resolve();
    };
    signal?.addEventListener("abort", aborted, { once: true });
    look();
  });
}
