/** Composes the observers of a relay: one list, called in its order when an event, an attempt or a refusal has happened. */
import type { Observer } from "../../ports/observer.ts";
import type { Log } from "../../ports/plugin.ts";

export interface NamedObserver {
  /** For the log. */
  readonly name: string;
  readonly observer: Observer;
}

type Hook = "accepted" | "attempted" | "refused";
type With<Name extends Hook> = NamedObserver & { readonly observer: Required<Pick<Observer, Name>> };

export interface Observers extends Required<Pick<Observer, Hook>> {
  /** Sets the list. Called once, when all parts are composed: some of them are observers and report to the others. */
  connect(observers: readonly NamedObserver[]): void;
}

export function createObservers(log: Pick<Log, "warn">): Observers {
  const failed = new Set<string>();
  let accepted: readonly With<"accepted">[] = [];
  let attempted: readonly With<"attempted">[] = [];
  let refused: readonly With<"refused">[] = [];

  /** Logs the first failure of an observer: a log line for each event would bury the others. */
  function fault(name: string, error: unknown): void {
    if (!failed.has(name)) log.warn("an observer failed", { plugin: name, error: String(error) });
    failed.add(name);
  }

  return {
    connect(observers) {
      const having = <Name extends Hook>(name: Name): readonly With<Name>[] =>
        observers.filter((one): one is With<Name> => one.observer[name] !== undefined);
      accepted = having("accepted");
      attempted = having("attempted");
      refused = having("refused");
    },
    accepted(event) {
      for (const { name, observer } of accepted) {
        try {
          observer.accepted(event);
        } catch (error) {
          fault(name, error);
        }
      }
    },
    attempted(sub, delivery, attempt, outcome, type) {
      for (const { name, observer } of attempted) {
        try {
          observer.attempted(sub, delivery, attempt, outcome, type);
        } catch (error) {
          fault(name, error);
        }
      }
    },
    refused(code, keyId) {
      for (const { name, observer } of refused) {
        try {
          observer.refused(code, keyId);
        } catch (error) {
          fault(name, error);
        }
      }
    },
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
