/**
 * Paces work with bottleneck, whatever the wall clock does. Bottleneck counts by that clock: after it was set back by an hour, the
 * next work would wait for an hour. So a limiter that was made before such a step is replaced.
 */
import { addAbortListener } from "node:events";
import Bottleneck from "bottleneck";
import type { Clock } from "../ports/clock.ts";

/** A smaller step is waited out: clocks are corrected by some milliseconds all the time. */
const STEP_MS = 1_000;

/** Once it is disposed of, it no longer listens to its signal. */
export interface Pacer extends Disposable {
  /** Resolves to what the work resolves to, after its turn has come; to `undefined` where it was refused or stopped. */
  schedule<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** Changes the least time between two beginnings, ms. */
  setMinTime(ms: number): void;
}

/**
 * @param clock the one that bottleneck counts by, with the time that never steps
 * @param options `minTime`: the least time between two beginnings, ms; `highWater: 0` with `OVERFLOW`: nothing waits
 * @param signal drops what waits for its turn, and refuses what comes. Work under way goes on
 */
export function createPacer(
  clock: Pick<Clock, "now" | "monotonic">,
  options: Bottleneck.ConstructorOptions,
  signal?: AbortSignal,
): Pacer {
  /** How far the wall clock is ahead of the one that never steps, ms. */
  const wallAhead = (): number => clock.now() - clock.monotonic();
  let limiter = new Bottleneck(options);
  let ahead = wallAhead();
  let minTime = options.minTime;

  /** The limiter of the wall clock as it goes now. */
  function current(): Bottleneck {
    const now = wallAhead();
    if (now < ahead - STEP_MS) limiter = new Bottleneck({ ...options, minTime });
    ahead = now;
    return limiter;
  }

  const stop = (): void => void limiter.stop({ dropWaitingJobs: true }).catch(() => undefined);
  const listening = signal && addAbortListener(signal, stop);

  return {
    async schedule(work) {
      if (signal?.aborted) return undefined;
      try {
        return await current().schedule(work);
      } catch (error) {
        if (error instanceof Bottleneck.BottleneckError) return undefined;
        throw error;
      }
    },
    setMinTime(ms) {
      minTime = ms;
      limiter.updateSettings({ minTime: ms });
    },
    [Symbol.dispose]: () => listening?.[Symbol.dispose](),
  };
}
