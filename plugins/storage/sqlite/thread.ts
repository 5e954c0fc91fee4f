/** Runs the writer's thread. It answers in the order of the requests. When it dies, every open request fails. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { isSea, getAsset } from "node:sea";
import { Worker } from "node:worker_threads";
import type { WorkerAnswer, WorkerRequest, WorkerStart } from "./writing.ts";

/** Name of the worker's text among the assets of a single executable. */
const WORKER_FILE = "sqlite-worker.mjs";

export interface Thread {
  ask(question: WorkerRequest): Promise<WorkerAnswer>;
  readonly dead: boolean;
  end(): Promise<void>;
}

/** Resolves to the thread and its first message. */
export async function startThread(
  workerData: WorkerStart,
): Promise<{ readonly thread: Thread; readonly first: WorkerAnswer }> {
  const worker = start(workerData);
  let dead = false;
  let last = "it ended";
  const asked: ((answer: WorkerAnswer) => void)[] = [];

  worker.on("message", (answer: WorkerAnswer) => asked.shift()?.(answer));
  worker.on("error", (error) => {
    last = error instanceof Error ? error.message : String(error);
  });
  worker.on("exit", () => {
    dead = true;
    // It may have committed before it died.
    for (const answer of asked.splice(0)) answer({ fault: "uncertain", message: `the storage thread died: ${last}` });
  });

  const next = (): Promise<WorkerAnswer> =>
    new Promise((resolve) => {
      asked.push(resolve);
    });
  const thread: Thread = {
    get dead() {
      return dead;
    },
    ask(question) {
      const answer = next();
      worker.postMessage(question);
      return answer;
    },
    end: async () => void (await worker.terminate()),
  };
  return { thread, first: await next() };
}

function start(workerData: WorkerStart): Worker {
  const options = {
    name: "sqlite",
    workerData,
    // A thread that dies leaves its file open: closing it would drop the locks of the process's other connections.
    trackUnmanagedFds: false,
    resourceLimits: { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 8 },
  };
  if (isSea()) return new Worker(getAsset(WORKER_FILE, "utf8"), { ...options, eval: true });
  const file = import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js";
  return new Worker(new URL(file, import.meta.url), { ...options, env: { ...process.env, ...compileCache() } });
}

/**
 * Passes the cache of compiled code, which a thread does not share by itself. Without it, the thread strips the types
 * of its one file at each start: that takes 50 ms, and a parser of 17 MB that stays in memory.
 */
function compileCache(): NodeJS.ProcessEnv {
  // The cache of this version of Node: the variable expects the parent folder.
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}
