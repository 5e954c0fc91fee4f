/**
 * The spool source: NDJSON files dropped into a folder. A file whose events are all stored moves to `done/`, one with
 * mistakes to `rejected/` with a list of them; one that cannot be stored now stays and is tried again.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { must, optional, optionProblems, text } from "../../core/ports/options.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";

export interface SpoolOptions {
  /**
   * The folder, made if missing; relative to the config file. Writers drop a file under a name that begins with a dot
   * or ends in `.tmp` or `.part`, and rename it when it is complete.
   */
  readonly dir: string;
  /** How often the folder is read without a notice of a change, ms. @default 10_000 */
  readonly rescanMs?: number;
}

/** Publishes NDJSON files in `dir`: 1,000 events and 8 MiB are all or nothing, larger ones in such batches. */
export function spool(options: SpoolOptions): Plugin<"source", Source> {
  const problems = optionProblems<SpoolOptions>(options, {
    dir: text("a folder"),
    rescanMs: optional(must("must be 100 to 3600000", (ms) => typeof ms === "number" && ms >= 100 && ms <= 3_600_000)),
  });
  return own({
    kind: "source",
    name: "spool",
    problems,
    warnings: (configDir) => {
      const dir = resolve(configDir, options.dir);
      return existsSync(dir) ? [] : [{ path: "dir", message: `is not there yet and is made at the start: ${dir}` }];
    },
    async setup(ctx) {
      const { startSpool } = await import("./spool/source.ts");
      return startSpool(ctx, options);
    },
  });
}
