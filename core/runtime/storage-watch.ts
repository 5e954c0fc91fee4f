/** Wraps a storage to measure its commits: how long they take, how many changes they carry, how they fail. */
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { bound } from "./plugin/walled.ts";

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
