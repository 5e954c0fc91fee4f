/** Starts processes of transforms from the bundle of test/packed-relay.ts: they are there in half the time of the sources. */
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { SpawnTransforms } from "../../core/runtime/transforms/worker.ts";
import { ENTRY } from "./command.ts";

/** @param cwd the folder with the config */
export async function transformSpawner(cwd: string, given: NodeJS.ProcessEnv = process.env): Promise<SpawnTransforms> {
  const cli = dirname(ENTRY);
  const packed = (await import(
    pathToFileURL(join(cli, "support/transform-processes.js")).href
  )) as typeof import("../../cli/support/transform-processes.ts");
  // Where the command that is started from the bundle keeps its compiled code.
  const env = { ...given, NODE_COMPILE_CACHE: join(cli, "../../node_modules/.cache/relay") };
  return packed.transformSpawner({ flags: {}, env, cwd });
}
