/** `filesystem({ dir })` stores one plain JSON file per record, which a person can read and back up, behind a journal. */
import { join, resolve } from "node:path";
import { refuseOptions } from "../../core/model/errors.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { embeddedProblems } from "./embedded/options.ts";
import { countByPages, embedded, type EmbeddedOptions, type EmbeddedStore } from "./embedded/storage.ts";
import { type FolderLock, lockFolder } from "./embedded/lock.ts";
import { diskRoom } from "./embedded/free-space.ts";
import { type OpenedStore, openFolder, prepareFolder } from "./filesystem/open-store.ts";

export interface FilesystemOptions extends EmbeddedOptions {
  /** Folder of the records; relative to the config file. @default "files" in the data folder */
  readonly dir?: string;
  /** Most records in one folder; a fuller one is split. 2 to 1_000_000, and may change from start to start. @default 1_000 */
  readonly perFolder?: number;
}

/**
 * One process per folder: it is locked. Durability is `fsync`: a commit is acknowledged when the journal is synced.
 *
 * - `records/<key prefix>/from…/<rest of the key>.json`: the records, brought up to date within a second.
 * - `journal/`: what was committed since.
 * - `quarantine/`: what was torn, foreign or changed by hand; reported in the log, counted in the status.
 *
 * To back it up, copy the whole folder of a stopped relay; a copy taken while it runs mixes several moments.
 */
export function filesystem(options: FilesystemOptions = {}): Plugin<"storage", Storage> {
  const problems = embeddedProblems(options, { perFolder: [2, 1_000_000] }, ["dir"]);
  return {
    kind: "storage",
    name: "filesystem",
    problems,
    async setup(ctx) {
      refuseOptions(problems);
      const given = options.dir === undefined ? join(ctx.dataDir, "files") : resolve(ctx.configDir, options.dir);
      const dir = prepareFolder(given, ctx.log);
      const lock = await lockFolder(dir);
      try {
        const opened = await openFolder(dir, ctx.clock, ctx.log, options.perFolder ?? 1_000);
        return await embedded(asStore(dir, opened, lock), ctx.clock, options);
      } catch (error) {
        lock.release();
        throw error;
      }
    },
  };
}

function asStore(dir: string, { store, files, journal, quarantine }: OpenedStore, lock: FolderLock): EmbeddedStore {
  const range: EmbeddedStore["range"] = (prefix, options) => store.range(prefix, options);
  return {
    name: "filesystem",
    durability: "fsync",
    commit: (changes) => store.commit(changes),
    getMany: (keys) => Promise.all(keys.map((key) => store.get(key))),
    range,
    // The journal has more than the files while a full disk keeps these from being written.
    count: (prefix) => (store.backlog.keys === 0 ? files.count(prefix) : countByPages(range, prefix)),
    lateCount: true,
    room: () => diskRoom(dir),
    async status() {
      const { freeBytes } = await diskRoom(dir);
      const { keys, bytes } = store.backlog;
      const facts = {
        folders: files.leaves.count,
        journalBytes: journal.bytes,
        behindKeys: keys,
        behindBytes: bytes,
      };
      return { ...facts, quarantined: quarantine.count, freeBytes };
    },
    async close() {
      await store.close();
      lock.release();
    },
  };
}
