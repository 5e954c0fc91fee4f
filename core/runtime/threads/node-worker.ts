/** One thread that runs a node, as its supervisor sees it: started, asked, found hanging, ended. */
import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import type { Started } from "../compose/compose.ts";
import type { MetricsSnapshot } from "../observability/index.ts";
import { createLink, type Link } from "./link.ts";
import type { ThreadBeat, ThreadStart } from "./node-thread.ts";

/** Starts a thread with this as its `workerData`. `ports` are transferred to it. */
export type Spawn = (start: ThreadStart, ports: readonly MessagePort[]) => Worker;

/** How a thread ended. */
interface ThreadEnd {
  readonly exitCode: number;
  /** What it threw, where it did. */
  readonly error: Error | undefined;
  /** It was ended because it hung. */
  readonly hung: boolean;
}

export interface NodeWorker {
  readonly index: number;
  readonly link: Link;
  /** Resolves when its node serves. @throws what its start throws */
  start(): Promise<Started>;
  /** Whether its node serves. */
  running: boolean;
  /** What it said last of itself. */
  beat: ThreadBeat;
  /** Its last metrics that were read. */
  metrics: MetricsSnapshot | undefined;
  /** Monotonic ms of its start. */
  readonly began: number;
  /** Called every second. Ends the thread when it has given no sign of life for too many calls. */
  look(): void;
  /** Ends the thread as it is. */
  kill(): void;
  readonly ended: Promise<ThreadEnd>;
}

/** Calls of `look` without a sign of life: of a node that serves, and of one that still starts. */
const SILENT = 20;
const SILENT_STARTING = 120;

export function startNodeWorker(given: {
  readonly spawn: Spawn;
  readonly start: Omit<ThreadStart, "control">;
  readonly now: number;
  readonly lines: (lines: string) => void;
  /** Text of the metrics of the whole process. */
  readonly processMetrics: () => Promise<string>;
}): NodeWorker {
  const { spawn, start, now, lines, processMetrics } = given;
  const { port1, port2 } = new MessageChannel();
  const ports = [port2, ...(start.storage === undefined ? [] : [start.storage])];
  const worker = spawn({ ...start, control: port2 }, ports);
  let silent = 0;
  let hung = false;
  let error: Error | undefined;

  const ended = new Promise<ThreadEnd>((resolve) => {
    worker.on("error", (cause: unknown) => (error = cause instanceof Error ? cause : new Error(String(cause))));
    worker.on("exit", (exitCode: number) => {
      node.running = false;
      resolve({ exitCode, error, hung });
      // After that, so that a start which waits learns why.
      setImmediate(() => {
        node.link.end();
        port1.close();
      });
    });
  });
  worker.on("message", lines);

  const node: NodeWorker = {
    index: start.index,
    began: now,
    running: false,
    beat: { underWay: 0, parts: {} },
    metrics: undefined,
    ended,
    link: createLink(
      port1,
      (method, args) => {
        if (method === "metrics") return processMetrics();
        node.beat = args[0] as ThreadBeat;
        return undefined;
      },
      () => (silent = 0),
    ),
    async start() {
      const started = await Promise.race([node.link.call<Started>("start", []), ended.then(fault)]);
      node.running = true;
      return started;
    },
    look() {
      silent++;
      if (silent <= (node.running ? SILENT : SILENT_STARTING)) return;
      hung = true;
      node.kill();
    },
    kill: () => void worker.terminate(),
  };
  return node;
}

/** @throws what the thread died of */
function fault({ exitCode, error }: ThreadEnd): never {
  throw error ?? new Error(`the thread of a node ended with ${exitCode}`);
}
