/** Starts threads that run a node by the same command line. A plug-in cannot cross to a thread, so each reads the config. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { getAsset, isSea } from "node:sea";
import { Worker } from "node:worker_threads";
import type { Plan } from "../../ports/plan.ts";
import type { ThreadStart } from "../../runtime/threads/node-thread.ts";
import type { Spawn } from "../../runtime/threads/node-worker.ts";
import { digests, effective, LIVE } from "./reload.ts";
import type { StartedBy } from "./started-by.ts";

/** What a thread gets beside its task: how to read the config, and what it was when the process started. */
export interface ThreadData {
  readonly start: ThreadStart;
  readonly by: StartedBy;
  readonly config: string;
}

/** Name of the program's text among the assets of a single executable. */
export const PROGRAM_FILE = "relay.cjs";

export function threadSpawner(plan: Plan, by: StartedBy): Spawn {
  const config = fixed(plan);
  return (start, ports) => {
    const workerData: ThreadData = { start, by, config };
    const options = { name: `node-${start.index}`, workerData, transferList: [...ports] };
    const { env } = by;
    if (isSea()) return new Worker(getAsset(PROGRAM_FILE, "utf8"), { ...options, eval: true, env: { ...env } });
    const file = import.meta.url.endsWith(".ts") ? "./thread-entry.ts" : "./thread-entry.js";
    const folder = getCompileCacheDir();
    // A thread does not share the cache of compiled code by itself; the variable expects the parent folder.
    const cache = folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
    return new Worker(new URL(file, import.meta.url), { ...options, env: { ...env, ...cache } });
  };
}

/** Everything of a plan but plug-ins and what may change while the process runs; digests of what may hold secrets. */
export function fixed(plan: Plan): string {
  const parts = Object.entries(effective(plan)).filter(([name]) => !LIVE.has(name));
  return JSON.stringify({ ...Object.fromEntries(parts), ...digests(plan, "") });
}
