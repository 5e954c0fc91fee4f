/** Waits that all end together, when somebody calls `wake`, or one by one, when their signal aborts. */
export class Waiters {
  #all = new Set<() => void>();

  get size(): number {
    return this.#all.size;
  }

  /** Resolves at the next `wake`, or when the signal aborts. */
  wait(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        this.#all.delete(end);
        signal.removeEventListener("abort", end);
        resolve();
      };
      this.#all.add(end);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  /** Ends the waits that are under way. */
  wake(): void {
    if (this.#all.size === 0) return;
    const all = this.#all;
    this.#all = new Set();
    for (const end of all) end();
  }
}
