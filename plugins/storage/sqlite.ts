/** `sqlite()` is the embedded default: one file, one writing thread, every commit synced before it resolves. */
import { chmodSync, closeSync, existsSync, openSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { StartError, StorageError } from "../../core/model/errors.ts";
import { makeDurableFolder, ownerAdvice, syncFolder } from "../../core/ports/folder.ts";
import { optional, optionProblems, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { lockFolder } from "./embedded/lock.ts";
import { diskRoom } from "./embedded/free-space.ts";
import { embedded, WINDOW, type EmbeddedOptions } from "./embedded/storage.ts";
import { OWED } from "./sqlite/clean-up.ts";
import { openReader } from "./sqlite/reader.ts";
import { openWriter } from "./sqlite/writer.ts";

interface SqliteOptions extends EmbeddedOptions {
  /** Folder of the database, relative to the config file. @default the relay's data folder */
  readonly dir?: string;
  /** Memory for pages, in all: 256 to 4_194_304. @default 10_240 */
  readonly cacheKiB?: number;
}

/** Memory for pages of a thread's reads: SQLite drops them at the first read after each commit. */
const READS_KIB = 2_048;
/** Free space below which a start may fail, because SQLite cannot make the index of its log. */
const START_BYTES = 1 << 20;
/** Name of the database in its folder; its log and index stand next to it. */
const FILE = "relay.db";

/** Keeps everything in one SQLite database. @throws StartError 75 when another process uses the folder, 78 when its data is not ours */
export function sqlite(options: SqliteOptions = {}): Plugin<"storage", Storage> {
  const problems = optionProblems<SqliteOptions>(options, {
    window: WINDOW,
    cacheKiB: optional(whole(256, 4_194_304)),
    dir: optional(text("a folder")),
  });
  const { dir, cacheKiB = 10_240 } = options ?? {};
  const readsKiB = Math.min(READS_KIB, cacheKiB >> 1);
  return own({
    kind: "storage",
    name: "sqlite",
    problems,
    async setup({ clock, metrics, dataDir, configDir }) {
      const folder = dir === undefined ? dataDir : resolve(configDir, dir);
      makeDurableFolder(folder);
      // Closed in the opposite order: the lock last, and before it the writer, as the last connection empties the log.
      const opened = new AsyncDisposableStack();
      opened.defer((await lockFolder(folder)).release);
      const path = join(folder, FILE);
      try {
        // Made here, so that nobody else can read the file and what SQLite puts next to it.
        if (existsSync(path)) chmodSync(path, 0o600);
        else closeSync(openSync(path, "a", 0o600));
        // Also when an earlier process made the file: it may have died before the sync.
        syncFolder(folder);
        const written = (changes: number): void => metrics.observe("batch_changes", changes);
        const writer = await openWriter({ path, cacheKiB: cacheKiB - readsKiB }, written, clock);
        opened.defer(() => writer.close());
        const reader = await openReader(path, readsKiB);
        opened.defer(() => reader.close());
        return await embedded(
          {
            name: "sqlite",
            durability: "fsync",
            commit: writer.commit.bind(writer),
            getMany: async (keys) => reader.getMany(keys),
            range: async (prefix, range) => reader.range(prefix, range),
            count: async (prefix) => reader.count(prefix),
            verify: async () => reader.verify(),
            async room() {
              const { freeBytes, totalBytes } = await diskRoom(folder);
              // Free pages inside the file are reused first.
              return { freeBytes: freeBytes + reader.pages().free, totalBytes };
            },
            async status() {
              const { used, free } = reader.pages();
              const { freeBytes } = await diskRoom(folder);
              const cleanUpOwed = reader.getMany([OWED])[0] !== undefined;
              return { bytes: used, reusableBytes: free, freeBytes, logBytes: bytesOf(`${path}-wal`), cleanUpOwed };
            },
            close: () => opened.disposeAsync(),
          },
          clock,
          options,
        );
      } catch (error) {
        await opened.disposeAsync();
        throw await nameFullDisk(error, folder);
      }
    },
  });
}

/** Returns the error of a start, with its cause where another user owns a file, and the likely one where the disk is full: SQLite speaks of an I/O error then. */
async function nameFullDisk(error: unknown, folder: string): Promise<unknown> {
  const owner = ownerAdvice(folder);
  if (owner !== undefined) return new StartError(78, `${folder} cannot be used: ${owner}`, { cause: error });
  if (!(error instanceof StorageError) || error.fault !== "unavailable") return error;
  const { freeBytes } = await diskRoom(folder);
  if (freeBytes >= START_BYTES) return error;
  const why = `the disk of ${folder} may be full: ${freeBytes} bytes are free, and a start needs up to ${START_BYTES >> 20} MiB`;
  return new StorageError("full", `${error.message}; ${why}`, { cause: error });
}

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
