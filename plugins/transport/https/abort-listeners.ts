/**
 * Shares one abort listener per signal. Attempts share few signals, and a listener per attempt costs as much as a hash.
 */

/** An attempt that can be aborted. */
export interface AbortTarget {
  /** Called once, when the signal aborts. */
  callOff(): void;
}

/** The attempts under way, by the signal that aborts them. */
export class AbortListeners {
  readonly #bySignal = new WeakMap<AbortSignal, Set<AbortTarget>>();

  /** Aborts the target when the signal aborts from now on. The caller checks whether it has aborted already. */
  add(signal: AbortSignal, called: AbortTarget): void {
    let all = this.#bySignal.get(signal);
    if (all === undefined) {
      const made = new Set<AbortTarget>();
      this.#bySignal.set(signal, (all = made));
      const callOff = (): void => {
        for (const one of made) one.callOff();
      };
      signal.addEventListener("abort", callOff, { once: true });
    }
    all.add(called);
  }

  /** Call it when the attempt has ended. */
  remove(signal: AbortSignal, called: AbortTarget): void {
    this.#bySignal.get(signal)?.delete(called);
  }
}
