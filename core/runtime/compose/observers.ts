/** Composes the observers of a relay: one list, called in its order when an event, an attempt or a refusal has happened. */
import type { Observer } from "../../ports/observer.ts";
import type { Log } from "../../ports/plugin.ts";
import { isThenable } from "../plugin/wall.ts";

export interface NamedObserver {
  /** For the log. */
  readonly name: string;
  readonly observer: Observer;
  /** Takes what a plug-in's observer throws; what one of the relay's own throws is logged. */
  readonly note?: (hook: string, error: unknown) => void;
}

type Hook = "accepted" | "attempted" | "refused";

interface Observers extends Required<Pick<Observer, Hook>> {
  /** Sets the list. Called once, when all parts are composed: some of them are observers and report to the others. */
  connect(observers: readonly NamedObserver[]): void;
}

/** What an observer throws stops neither the relay nor the next observer. */
export function createObservers(log: Pick<Log, "warn">): Observers {
  const lists: Record<Hook, NamedObserver[]> = { accepted: [], attempted: [], refused: [] };

  const logged = (plugin: string) => (_: string, error: unknown) =>
    log.warn("an observer failed", { plugin, error: String(error) });

  function call<Name extends Hook>(hook: Name, ...args: Parameters<Required<Observer>[Name]>): void {
    for (const { name, observer, note = logged(name) } of lists[hook]) {
      try {
        const given: unknown = Reflect.apply(observer[hook] as (...all: unknown[]) => unknown, observer, args);
        if (isThenable(given)) Promise.resolve(given).catch((error: unknown) => note(hook, error));
      } catch (error) {
        note(hook, error);
      }
    }
  }

  return {
    connect(observers) {
      for (const hook of ["accepted", "attempted", "refused"] as const)
        lists[hook] = observers.filter(({ observer }) => observer[hook] !== undefined);
    },
    accepted: (...args) => call("accepted", ...args),
    attempted: (...args) => call("attempted", ...args),
    refused: (...args) => call("refused", ...args),
  };
}

/** `inner` in the wrappers of all observers; the first observer's is the outermost. */
export function wrapped<Inner>(
  observers: readonly NamedObserver[],
  wrapperOf: (observer: Observer) => ((next: Inner) => Inner) | undefined,
  inner: Inner,
): Inner {
  return observers.reduceRight((next, { observer }) => wrapperOf(observer)?.call(observer, next) ?? next, inner);
}
