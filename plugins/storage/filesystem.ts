/** `filesystem({ dir })` stores one plain JSON file per record, which a person can read and back up, behind a journal. */
import { refuseOptions } from "../../core/model/errors.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { embeddedProblems } from "./embedded/options.ts";
import type { EmbeddedOptions } from "./embedded/storage.ts";

interface FilesystemOptions extends EmbeddedOptions {
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
      // Loaded here, as most relays use another storage.
      return (await import("./filesystem/open.ts")).openFilesystem(options, ctx);
    },
  };
}
