/** Wraps a storage to measure its commits: how long they take, how many changes they carry, how they fail. */
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";

/** The same storage, with `commit` and `queue.settle` timed and counted. */
export function watchedStorage(storage: Storage, clock: Pick<Clock, "monotonic">, metrics: Metrics): Storage {
  function watch(changes: number, done: Promise<void>): Promise<void> {
    const began = clock.monotonic();
    // The caller gets the very same promise, so nothing waits for the counting.
    done.then(
      () => {
        metrics.observe("commit_seconds", (clock.monotonic() - began) / 1_000);
        metrics.observe("commit_changes", changes);
      },
      (error: unknown) => {
        if (error instanceof StorageError) metrics.count("storage_faults", { fault: error.fault });
      },
    );
    return done;
  }
  const { queue } = storage;
  return bound(storage, {
    commit: (changes) => watch(changes.length, storage.commit(changes)),
    queue: bound(queue, {
      settle: (lease, changes, then) => watch(changes.length, queue.settle(lease, changes, then)),
    }),
  });
}

/** `target` with some members replaced. Methods keep their own `this`, as a plug-in may be an instance of a class. */
export function bound<T extends object>(target: T, over: Partial<T>): T {
  const made: Record<string, unknown> = Object.defineProperties({}, Object.getOwnPropertyDescriptors(over));
  for (let at: object = target; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at) as object) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name === "constructor" || name in made) continue;
      const value: unknown = target[name as keyof T];
      if (typeof value === "function") made[name] = (value as (...args: unknown[]) => unknown).bind(target);
      else Object.defineProperty(made, name, { enumerable: true, get: () => target[name as keyof T] });
    }
  }
  return made as T;
}
