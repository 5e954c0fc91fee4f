/** Wraps a storage to measure its commits: how long they take, how many changes they carry, how they fail. */
import { StorageError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { bound } from "./plugin/bound.ts";

/** The same storage, with `commit` and `queue.settle` timed and counted. */
export function watchedStorage(storage: Storage, clock: Pick<Clock, "monotonic">, metrics: Metrics): Storage {
  /** @param at the place of the changes among the arguments */
  const timed =
    <Args extends readonly unknown[]>(commit: (...args: Args) => Promise<void>, at: number) =>
    async (...args: Args): Promise<void> => {
      const began = clock.monotonic();
      try {
        await commit(...args);
      } catch (error) {
        if (error instanceof StorageError) metrics.count("storage_faults", { fault: error.fault });
        throw error;
      }
      metrics.observe("commit_seconds", (clock.monotonic() - began) / 1_000);
      metrics.observe("commit_changes", (args[at] as readonly Change[]).length);
    };
  const { queue } = storage;
  return bound(storage, {
    commit: timed(storage.commit.bind(storage), 0),
    queue: bound(queue, { settle: timed(queue.settle.bind(queue), 1) }),
  });
}
