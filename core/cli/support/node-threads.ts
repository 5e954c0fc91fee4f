/** Starts threads that run a node, or send for one, by the same command line. A plug-in cannot cross to a thread, so each reads the config. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { getAsset, isSea } from "node:sea";
import { Worker, type MessagePort } from "node:worker_threads";
import { loadConfig } from "../../../config/load.ts";
import { StartError } from "../../model/errors.ts";
import type { Plan } from "../../ports/plan.ts";
import { systemClock } from "../../runtime/clock.ts";
import { runSideThread } from "../../runtime/side-thread/run-side-thread.ts";
import type { SideStart } from "../../runtime/side-thread/side-call.ts";
import type { SpawnSideThread } from "../../runtime/side-thread/side-thread.ts";
import type { ThreadStart } from "../../runtime/threads/node-thread.ts";
import type { Spawn } from "../../runtime/threads/node-worker.ts";
import { runNode } from "../../runtime/threads/run-node.ts";
import { EX_CONFIG } from "./exit.ts";
import { digests, effective, LIVE } from "./reload.ts";
import type { StartedBy } from "./started-by.ts";
import { transformSpawner } from "./transform-processes.ts";

/** What a thread gets beside its task: how to read the config, and what it was when the process started. */
interface ThreadData {
  /** A thread that runs a node has this, */
  readonly start?: ThreadStart;
  /** one that sends for a node has this. */
  readonly side?: SideStart;
  readonly by: StartedBy;
  readonly config: string;
}

/** Name of the program's text among the assets of a single executable. */
export const PROGRAM_FILE = "relay.cjs";

export function threadSpawner(plan: Plan, by: StartedBy): Spawn {
  const config = fixed(plan);
  return (start, ports) => spawn(`node-${start.index}`, { start, by, config }, ports);
}

/** @param lines takes what the thread logs */
export function sideThreadSpawner(plan: Plan, by: StartedBy, lines: (lines: string) => void): SpawnSideThread {
  const config = fixed(plan);
  return (side, ports) => spawn("side", { side, by, config }, ports).on("message", lines);
}

function spawn(name: string, workerData: ThreadData, ports: readonly MessagePort[]): Worker {
  const { env } = workerData.by;
  const options = { name, workerData, transferList: [...ports] };
  if (isSea()) return new Worker(getAsset(PROGRAM_FILE, "utf8"), { ...options, eval: true, env: { ...env } });
  const file = import.meta.url.endsWith(".ts") ? "./thread-entry.ts" : "./thread-entry.js";
  const folder = getCompileCacheDir();
  // A thread does not share the cache of compiled code by itself; the variable expects the parent folder.
  const cache = folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
  return new Worker(new URL(file, import.meta.url), { ...options, env: { ...env, ...cache } });
}

/** Does the task of this thread. @param data `workerData` */
export function runThread(data: unknown, parent: Pick<MessagePort, "postMessage">): void {
  const { start, side, by, config } = data as ThreadData;
  const { env } = process;
  const io = { parent, clock: systemClock(), env };
  async function load(): Promise<Plan> {
    const { plan } = await loadConfig({ flags: by.flags, env, cwd: by.cwd });
    if (fixed(plan) !== config) {
      throw new StartError(EX_CONFIG, "the config was changed since the process started: restart the relay");
    }
    return plan;
  }
  if (side !== undefined) return runSideThread({ ...io, start: side, load });
  if (start === undefined) throw new Error("a thread was started without a task");
  const lines = (text: string): void => parent.postMessage(text);
  const sideThread = (plan: Plan): SpawnSideThread => sideThreadSpawner(plan, by, lines);
  runNode({ ...io, start, transforms: transformSpawner(by), sideThread, load });
}

/** Everything of a plan but plug-ins and what may change while the process runs; digests of what may hold secrets. */
function fixed(plan: Plan): string {
  const parts = Object.entries(effective(plan)).filter(([name]) => !LIVE.has(name));
  return JSON.stringify({ ...Object.fromEntries(parts), ...digests(plan, "") });
}
