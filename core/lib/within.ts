/** Waits for work, but not for ever. */

/** The part of the clock port that a wait needs. */
export interface Sleeper {
  now(): number;
  sleep(until: number, signal?: AbortSignal): Promise<void>;
}

const OVER = "the work is over";

/**
 * Resolves when the work has ended, `ms` milliseconds have passed or the signal aborts. The work goes on in any case.
 * @returns whether the work ended first
 * @throws what the work throws, when it does so first
 */
export async function within(
  clock: Sleeper,
  ms: number,
  work: Promise<unknown> | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const over = new AbortController();
  const ends = signal === undefined ? over.signal : AbortSignal.any([over.signal, signal]);
  const late = clock.sleep(clock.now() + ms, ends).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([Promise.resolve(work).then(() => true), late]);
  } finally {
    // Without a reason an error is made for each, with its stack.
    over.abort(OVER);
  }
}

/** Waits for work that may fail, at most so long: a peer that does not answer must not hold up a stop. Never rejects. */
export async function endsWithin(clock: Sleeper, ms: number, work: Promise<unknown>): Promise<void> {
  await within(
    clock,
    ms,
    work.catch(() => undefined),
  );
}

/**
 * Resolves as the work does, or to `undefined` once the signal aborts. It leaves nothing behind at the signal, which may
 * outlive thousands of works.
 * @throws what the work throws, when it does so first
 */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const stop = (): void => resolve(undefined);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/**
 * Runs work under a signal that aborts with `late` after `ms` milliseconds, or with the reason of one of `others`. The timer
 * ends with the work.
 * @throws what the work throws
 */
export async function underDeadline<T>(
  clock: Sleeper,
  ms: number,
  late: Error,
  run: (signal: AbortSignal) => Promise<T>,
  ...others: readonly AbortSignal[]
): Promise<T> {
  const [end, over] = [new AbortController(), new AbortController()];
  clock.sleep(clock.now() + ms, over.signal).then(
    () => end.abort(late),
    () => undefined,
  );
  try {
    return await run(AbortSignal.any([end.signal, ...others]));
  } finally {
    over.abort();
  }
}
