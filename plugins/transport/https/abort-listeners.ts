/** Who is called off with which signal. Attempts share few signals: one listener each, where one an attempt costs as much as a hash. */
import { LinkedList, type Link } from "../../../core/model/linked-list.ts";

/** An attempt that can be called off. */
export interface AbortTarget {
  /** Called once, when the signal aborts. */
  callOff(): void;
}

/** The attempts under way, by the signal that calls them off. */
export class AbortListeners {
  readonly #bySignal = new WeakMap<AbortSignal, LinkedList<AbortTarget>>();

  /** Calls it off when the signal aborts from here on; that it has aborted already is the caller's to see. */
  add(signal: AbortSignal, called: AbortTarget): Link<AbortTarget> {
    let all = this.#bySignal.get(signal);
    if (all === undefined) {
      const made = new LinkedList<AbortTarget>();
      this.#bySignal.set(signal, (all = made));
      const callOff = (): void => {
        for (const one of made) one.callOff();
      };
      signal.addEventListener("abort", callOff, { once: true });
    }
    return all.add(called);
  }

  /** To be called when the attempt has ended. */
  remove(signal: AbortSignal, called: Link<AbortTarget>): void {
    this.#bySignal.get(signal)?.remove(called);
  }
}
