/** Time, as the rest of the relay may know it. Nothing else in `core` or `plugins` reads a clock or sets a timer. */
export interface Clock {
  /** Wall-clock time in epoch milliseconds. It may jump: use it for what people and receivers read. */
  now(): number;
  /** Milliseconds that only ever grow, from an arbitrary start. Use it for durations and windows. */
  monotonic(): number;
  /**
   * Resolves when as much time has passed as `until` (epoch ms) is ahead of `now()` at the call, at once if it is not. A
   * wait is a length: a wall clock that is set meanwhile, forwards or back, neither shortens nor lengthens it. It does not
   * keep the process alive.
   * @throws the signal's reason, when `signal` aborts first
   */
  sleep(until: number, signal?: AbortSignal): Promise<void>;
}
