/** `filesystem({ dir })` stores one plain JSON file per record, which a person can read and back up, behind a journal. */
import { join, resolve } from "node:path";
import { optional, optionProblems, text, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { embedded, WINDOW, type EmbeddedOptions } from "./embedded/storage.ts";

interface FilesystemOptions extends EmbeddedOptions {
  /** Folder of the records; relative to the config file. @default "files" in the data folder */
  readonly dir?: string;
  /** No longer used: a prefix has one folder. Leave it out. 2 to 1_000_000. */
  readonly perFolder?: number;
}

/**
 * One process per folder: it is locked. Durability is `fsync`: a commit is acknowledged when the journal is synced. All keys
 * (not the values) are held in memory, and listed at start.
 *
 * - `items/<key prefix>/<rest of the key>.json`: the records, brought up to date within a second.
 * - `journal/`: what was committed since.
 * - `quarantine/`: what was torn, foreign or changed by hand; reported in the log, counted in the status.
 *
 * To back it up, copy the whole folder of a stopped relay; a copy taken while it runs mixes several moments.
 */
export function filesystem(options: FilesystemOptions = {}): Plugin<"storage", Storage> {
  const problems = optionProblems<FilesystemOptions>(options, {
    window: WINDOW,
    perFolder: optional(whole(2, 1_000_000)),
    dir: optional(text("a folder")),
  });
  return own({
    kind: "storage",
    name: "filesystem",
    problems,
    async setup(ctx) {
      if (options.perFolder !== undefined) ctx.log.warn("perFolder of filesystem() has no effect any more; remove it");
      const dir = options.dir === undefined ? join(ctx.dataDir, "files") : resolve(ctx.configDir, options.dir);
      // Loaded here, as most relays use another storage.
      const store = await (await import("./unstorage/open-files.ts")).openFiles(dir, ctx);
      try {
        return await embedded(store, ctx.clock, options);
      } catch (error) {
        await store.close();
        throw error;
      }
    },
  });
}
