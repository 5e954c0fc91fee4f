/** The clock port. Nothing else in `core` or `plugins` reads a clock or sets a timer. */
export interface Clock {
  /** Wall-clock time in epoch milliseconds. It may jump: use it for what people and receivers read. */
  now(): number;
  /** Milliseconds that only ever grow, from an arbitrary start. Use them for durations and windows. */
  monotonic(): number;
  /**
   * Resolves after `until - now()` milliseconds, measured at the call, or at once when `until` (epoch ms) has passed.
   * The wait is a length: a wall clock that is set meanwhile, forwards or back, neither shortens nor lengthens it. It
   * does not keep the process alive.
   * @throws the signal's reason, when `signal` aborts first
   */
  sleep(until: number, signal?: AbortSignal): Promise<void>;
}
