/** Builds a complete storage from what an embedded plug-in brings: commit, getMany and range on this machine. */
import { StorageError } from "../../../core/model/errors.ts";
import { DUE } from "../../../core/model/schema.ts";
import { optional, whole } from "../../../core/ports/options.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Change, Durability, Storage, StorageSpace } from "../../../core/ports/storage.ts";
import { createCounters } from "./counters.ts";
import { simpleDriver, type KeyValue } from "./driver.ts";
import { EmbeddedQueue } from "./queue.ts";
import { watchedKeys, Watchers } from "./watch.ts";

/** The parts that a plug-in brings. Promises and errors are those of the storage port. */
export interface EmbeddedStore extends KeyValue {
  /** With `soon` it may wait up to 5 ms, to be made durable together with commits that cannot wait. */
  commit(changes: readonly Change[], soon?: boolean): Promise<void>;
  readonly name: string;
  readonly durability: Durability;
  /** Returns how many keys start with the prefix. Called at the start for all due lines, later for one subscription. */
  count(prefix: string): Promise<number>;
  status(): Promise<Readonly<Record<string, string | number | boolean>>>;
  verify?(): Promise<readonly string[]>;
  room?(): Promise<StorageSpace>;
  /** Called once. */
  close(): Promise<void>;
}

export interface EmbeddedOptions {
  /** Most due lines that wait in memory: 16 to 1_000_000. @default 10_000 */
  readonly window?: number;
}

export const WINDOW = optional(whole(16, 1_000_000));

export async function embedded(store: EmbeddedStore, clock: Clock, options: EmbeddedOptions = {}): Promise<Storage> {
  const watchers = new Watchers();
  let lines = await store.count(DUE.start);
  const taps = new Set<(changes: readonly Change[], certain: boolean) => void>();
  const underWay = new Set<readonly Change[]>();
  let closing: Promise<void> | undefined;

  async function commit(changes: readonly Change[], soon = false): Promise<void> {
    if (closing !== undefined) throw new StorageError("unavailable", "the storage is closed");
    const done = store.commit(changes, soon);
    const more = growth(changes);
    // Counts while the commit is under way, so that nobody waits for the count.
    lines += more;
    underWay.add(changes);
    try {
      await done;
    } catch (error) {
      lines -= more;
      // It may have happened: what is kept of these records is read again.
      if (error instanceof StorageError && error.fault === "uncertain") tell(changes, false);
      throw error;
    } finally {
      underWay.delete(changes);
    }
    tell(changes, true);
  }

  function tell(changes: readonly Change[], certain: boolean): void {
    const keys = watchedKeys(changes);
    if (keys !== undefined) watchers.notify(keys);
    for (const committed of taps) committed(changes, certain);
  }

  const { getMany, range } = store;
  const count = (prefix: string): Promise<number> => store.count(prefix);
  const unacknowledged = (): ReadonlySet<string> => linesOf(underWay);
  const queue = new EmbeddedQueue({ range, commit, unacknowledged, stored: () => lines, count }, clock, options.window);

  return {
    name: store.name,
    durability: store.durability,
    ...simpleDriver({ commit, getMany, range }),
    getMany,
    range,
    commit,
    watch: (changed) => watchers.watch(changed),
    tap(committed) {
      const own: typeof committed = (changes, certain) => committed(changes, certain);
      taps.add(own);
      return () => void taps.delete(own);
    },
    queue,
    counters: createCounters(clock),
    async status() {
      const { waiting, leased } = await queue.depth();
      return { name: store.name, durability: store.durability, waiting, leased, ...(await store.status()) };
    },
    ...(store.verify !== undefined && { verify: store.verify }),
    ...(store.room !== undefined && { room: store.room }),
    dispose() {
      closing ??= queue.close().then(() => store.close());
      return closing;
    },
  };
}

/** Returns the keys of the due lines that these commits put. */
function linesOf(commits: Iterable<readonly Change[]>): ReadonlySet<string> {
  const keys = new Set<string>();
  for (const changes of commits) for (const { op, key } of changes) if (op === "put" && DUE.has(key)) keys.add(key);
  return keys;
}

/** Returns how many due lines a commit adds. Every line is written once and deleted once, so counting is enough. */
function growth(changes: readonly Change[]): number {
  let more = 0;
  for (const { op, key } of changes) {
    if (op === "check" || !DUE.has(key)) continue;
    more += op === "put" ? 1 : -1;
  }
  return more;
}
