/**
 * Keeps everything through a driver of unstorage. The relay's `unstorage()` adds commits, order, queue and counters to any
 * driver, for one node; what your system does better, such as atomic commits, is worth a `Storage` of its own.
 */
import { resolve } from "node:path";
import { unstorage, type Plugin, type Storage } from "relaybox";
import fsDriver from "unstorage/drivers/fs-lite";
import { z } from "zod";

export interface Options {
  /** Folder of the records. Relative to the config file. */
  readonly dir: string;
}

const schema = z.strictObject({ dir: z.string().min(1) });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

export function myStorage(options: Options): Plugin<"storage", Storage> {
  return {
    kind: "storage",
    name: "my-storage",
    problems: problemsOf(options),
    setup: (ctx) => unstorage(fsDriver({ base: resolve(ctx.configDir, options.dir) })).setup(ctx),
  };
}
