/** Wraps a storage to measure its commits: how long they take, how many changes they carry, how they fail. */
import { StorageError, type StorageFault } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { bound } from "./plugin/bound.ts";

/** A failed commit is told for this long, ms, unless one has worked since. */
const TOLD_MS = 60_000;

/** Times and counts `commit` and `queue.settle`. `trouble` says how the last commit failed. */
export function watchedStorage(storage: Storage, clock: Pick<Clock, "monotonic">, metrics: Metrics) {
  let failed: { readonly fault: StorageFault; readonly at: number } | undefined;
  /** @param at the place of the changes among the arguments */
  const timed =
    <Args extends readonly unknown[]>(commit: (...args: Args) => Promise<void>, at: number) =>
    async (...args: Args): Promise<void> => {
      const began = clock.monotonic();
      try {
        await commit(...args);
        failed = undefined;
      } catch (error) {
        if (error instanceof StorageError) {
          metrics.count("storage_faults", { fault: error.fault });
          failed = { fault: error.fault, at: clock.monotonic() };
        }
        throw error;
      }
      metrics.observe("commit_seconds", (clock.monotonic() - began) / 1_000);
      metrics.observe("commit_changes", (args[at] as readonly Change[]).length);
    };
  const { queue } = storage;
  return {
    storage: bound(storage, {
      commit: timed(storage.commit.bind(storage), 0),
      queue: bound(queue, { settle: timed(queue.settle.bind(queue), 1) }),
    }),
    trouble: (): string | undefined =>
      failed === undefined || clock.monotonic() - failed.at > TOLD_MS
        ? undefined
        : `the last commit failed: ${failed.fault}`,
  };
}
