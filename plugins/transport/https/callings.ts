/** Who is called off with which signal. Attempts share few signals: one listener each, where one an attempt costs as much as a hash. */
import type { Ticket } from "../../../core/model/ticket.ts";

/** An attempt that can be called off. */
export interface Called {
  /** Called once, when the signal aborts. */
  callOff(): void;
}

/** The attempts under way, by the signal that calls them off. */
export class Callings {
  readonly #bySignal = new WeakMap<AbortSignal, Set<Ticket<Called>>>();

  /** Calls it off when the signal aborts from here on; that it has aborted already is the caller's to see. */
  add(signal: AbortSignal, called: Ticket<Called>): void {
    let all = this.#bySignal.get(signal);
    if (all === undefined) {
      const made = new Set<Ticket<Called>>();
      this.#bySignal.set(signal, (all = made));
      const callOff = (): void => {
        for (const { of } of made) of?.callOff();
        made.clear();
      };
      signal.addEventListener("abort", callOff, { once: true });
    }
    all.add(called);
  }

  /** To be called when the attempt has ended. */
  remove(signal: AbortSignal, called: Ticket<Called>): void {
    this.#bySignal.get(signal)?.delete(called);
  }
}
