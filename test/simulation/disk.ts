/**
 * A disk with one storage on it, which loses what was not synced.
 *
 * Commits go to the disk in batches, as those of the real ones. A crash keeps any beginning of what was not synced yet;
 * what was acknowledged has been synced. Built over the pieces that the embedded storages are made of.
 */
import { ConflictError, StorageError, type StorageFault } from "../../core/model/errors.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { unmet } from "../../plugins/storage/embedded/group.ts";
import { sortedMap, type SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { embedded } from "../../plugins/storage/embedded/storage.ts";
import type { Life, World } from "./world.ts";

export interface SimDisk {
  readonly rows: SortedMap;
  open(life: Life): Promise<Storage>;
  /** Power off: of what is not synced, some beginning stays. */
  crash(): void;
  /** Share of batches that fail while the disk is sick. */
  sick: number;
}

interface Waiting {
  readonly changes: readonly Change[];
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}
type Undo = readonly (readonly [key: string, before: string | undefined])[];

export interface DiskTraits {
  /** True when rows can be read before they are synced. */
  readonly early: boolean;
  /** Longest time of a sync and of a read, ms; 0 for reads at once. */
  readonly syncMs: number;
  readonly readMs: number;
}

export function simDisk(world: World, { early, syncMs, readMs }: DiskTraits): SimDisk {
  const { random } = world;
  const rows = sortedMap();
  let unsynced: Undo[] = [];
  /** Of the batch under way, what is not applied yet. */
  let writing: Waiting[] = [];

  function apply(changes: readonly Change[]): Undo {
    const undo: (readonly [string, string | undefined])[] = [];
    for (const change of changes) {
      if (change.op === "check") continue;
      undo.push([change.key, rows.get(change.key)]);
      if (change.op === "put") rows.set(change.key, change.value);
      else rows.delete(change.key);
    }
    return undo;
  }

  function revert(undo: Undo): void {
    for (const [key, before] of undo.toReversed()) {
      if (before === undefined) rows.delete(key);
      else rows.set(key, before);
    }
  }

  /** Judges and applies a batch; what each of its commits comes to. */
  function write(batch: readonly Waiting[]): readonly (() => void)[] {
    return batch.map(({ changes, resolve, reject }) => {
      const keys = unmet(changes, rows.get);
      if (keys.length > 0) return () => reject(new ConflictError(keys));
      unsynced.push(apply(changes));
      return resolve;
    });
  }

  async function open(life: Life): Promise<Storage> {
    let waiting: Waiting[] = [];
    let busy = false;

    function work(): void {
      if (waiting.length === 0) {
        busy = false;
        return;
      }
      busy = true;
      const batch = waiting;
      waiting = [];
      const fault = disk.sick > 0 && random.chance(disk.sick) ? sickness() : undefined;
      if (fault === "unavailable" || fault === "full") return end(batch.map((one) => () => one.reject(failure(fault))));
      writing = batch;
      let answers = early ? write(batch) : undefined;
      if (early) writing = [];
      life.after(random.next() * syncMs, () => {
        writing = [];
        // Rows that could be read already are not taken back while the process lives.
        if (fault === "uncertain" && !early && random.chance(0.5)) {
          return end(batch.map((one) => () => one.reject(failure(fault))));
        }
        answers ??= write(batch);
        unsynced = [];
        end(fault === undefined ? answers : batch.map((one) => () => one.reject(failure(fault))));
      });
    }

    function end(answers: readonly (() => void)[]): void {
      life.after(random.next(), () => {
        for (const answer of answers) answer();
        work();
      });
    }

    /** A read sees the rows as they are at some moment while it takes place. */
    function read<T>(look: () => T): Promise<T> {
      if (!life.alive()) return new Promise(() => {});
      if (disk.sick > 0 && random.chance(disk.sick / 2)) return Promise.reject(failure("unavailable"));
      if (readMs === 0) return Promise.resolve(look());
      const now = random.chance(0.5) ? look() : undefined;
      return new Promise((resolve) => void life.after(random.next() * readMs, () => resolve(now ?? look())));
    }

    return embedded(
      {
        name: "simulated",
        durability: "fsync",
        commit: (changes) =>
          new Promise((resolve, reject) => {
            if (!life.alive()) return;
            waiting.push({ changes, resolve, reject });
            if (!busy) work();
          }),
        getMany: (keys) => read(() => keys.map(rows.get)),
        range: (prefix, options) => read(() => rows.range(prefix, options)),
        count: async (prefix) => rows.count(prefix),
        status: async () => ({}),
        close: async () => {},
      },
      life.clock,
      { window: 64 },
    );
  }

  const sickness = (): StorageFault => random.pick(["unavailable", "full", "uncertain"] as const);

  const disk: SimDisk = {
    rows,
    open,
    sick: 0,
    crash() {
      const kept = random.int(0, unsynced.length);
      for (const undo of unsynced.slice(kept).toReversed()) revert(undo);
      unsynced = [];
      // A batch that was being written may be there as a whole.
      if (writing.length > 0 && random.chance(0.5)) write(writing);
      unsynced = [];
      writing = [];
    },
  };
  return disk;
}

const failure = (fault: StorageFault): StorageError => new StorageError(fault, "the simulated storage is sick");
