/**
 * One process that runs transforms, as the relay sees it: started when it is needed, asked for one run at a time, ended
 * when a run takes too long or too much memory, and started again.
 *
 * It is a process and not a thread. When the heap of a thread is full, or one native call wants too much of it, V8 may
 * end the whole process, and a thread inside a native call cannot be stopped.
 */
import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import type { TransformContext, TransformLimits } from "../../model/transform.ts";
import { within } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ProcessStart, RunAnswer } from "./messages.ts";

/** Starts a process that loads the config, says `ProcessStart`, and answers each `RunRequest` with a `RunAnswer`. */
export type SpawnTransforms = (limits: TransformLimits) => ChildProcess;

export interface RunInput {
  readonly name: string;
  readonly body: string;
  readonly context: TransformContext;
}

/** How a run ended. `ms`: how long it kept its worker. */
export type RunEnd =
  | { readonly kind: "made"; readonly text: string; readonly ms: number }
  | { readonly kind: "failed"; readonly detail: string; readonly ms: number }
  /** Its process ended, or had to be ended. `fresh`: it was the first run there, so no earlier run can be the cause. */
  | {
      readonly kind: "timeout" | "memory" | "died";
      readonly detail: string;
      readonly ms: number;
      readonly fresh: boolean;
    }
  /** No process can be started, or it cannot load the config: nothing was run. */
  | { readonly kind: "unready"; readonly detail: string };

interface TransformWorker {
  /** Never rejects. Call it again only when it has resolved. */
  run(input: RunInput): Promise<RunEnd>;
  /** Starts the process now, so that the next run need not wait for it. */
  prepare(): void;
  /** Whether a process is there that has loaded the config. */
  readonly ready: boolean;
  /** Ends the process before the next run, which then finds the config as it is by then. */
  retire(): void;
  /** Ends the process. Resolves when it is gone. */
  stop(): Promise<void>;
}

/** How often time and memory of a run are looked at, ms. */
const LOOK_MS = 50;
/** Longest time that a process may take to load the config, and to be gone once it is killed, ms. */
const START_MS = 30_000;
const GONE_MS = 5_000;
/** V8 ends its process with this signal, or on some systems with this code, when its heap is full. */
const HEAP_FULL = { signal: "SIGABRT", code: 134 };

interface Live {
  readonly child: ChildProcess;
  /** Resolves when the config is loaded, to why it cannot be used where it cannot. */
  readonly started: Promise<string | undefined>;
  /** Resolves when the process is gone. */
  readonly gone: Promise<void>;
  /** Told the answer to a run; `undefined`: the process is gone. */
  answered: ((answer: RunAnswer | undefined) => void) | undefined;
  ended: boolean;
  ready: boolean;
  runs: number;
  /** Resident memory once the config was loaded, KiB; `undefined` where it cannot be read. */
  base: number | undefined;
}

export function createTransformWorker(deps: {
  readonly spawn: SpawnTransforms;
  readonly limits: TransformLimits;
  readonly clock: Clock;
}): TransformWorker {
  const { spawn, limits, clock } = deps;
  let live: Live | undefined;
  let outdated = false;
  let stopped = false;

  function start(): Live {
    const child = spawn(limits);
    const first = Promise.withResolvers<string | undefined>();
    const gone = Promise.withResolvers<void>();
    const made: Live = {
      child,
      started: first.promise,
      gone: gone.promise,
      answered: undefined,
      ended: false,
      ready: false,
      runs: 0,
      base: undefined,
    };
    const end = (why: string): void => {
      if (live === made) live = undefined;
      made.ended = true;
      first.resolve(why);
      gone.resolve();
      made.answered?.(undefined);
    };
    child.on("error", (error) => {
      child.kill("SIGKILL");
      end(`the process cannot be started: ${error.message}`);
    });
    child.on("exit", (code, signal) => end(`its process ended (${signal ?? `exit ${code ?? "?"}`}) while it started`));
    child.on("message", (message: ProcessStart | RunAnswer) => {
      if (!("ready" in message)) return made.answered?.(message);
      if (!message.ready) return first.resolve(message.reason);
      void residentKb(child.pid).then((kb) => {
        made.base = kb;
        made.ready = true;
        first.resolve(undefined);
      });
    });
    void within(clock, START_MS, made.started).then((inTime) => {
      if (!inTime) child.kill("SIGKILL");
    });
    return made;
  }

  /** Returns the process, or why there is none: a machine without memory refuses one with an exception. */
  function running(): Live | string {
    if (stopped) return "the relay stops";
    try {
      return (live ??= start());
    } catch (error) {
      return `the process cannot be started: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /** Kills the process and waits until it is gone, so that there are never more of them than workers. */
  async function kill(process: Live): Promise<void> {
    if (live === process) live = undefined;
    process.child.kill("SIGKILL");
    await within(clock, GONE_MS, process.gone);
  }

  /** Resolves when the run may go on no longer; never when the signal aborts first. */
  async function overdue({ child, base }: Live, signal: AbortSignal): Promise<"timeout" | "memory"> {
    const began = clock.monotonic();
    let late = false;
    for (;;) {
      const left = limits.timeoutMs - (clock.monotonic() - began);
      // A look after the end: the answer may have come while this process itself was held up.
      if (left <= 0 && late) return "timeout";
      late = left <= 0;
      await clock.sleep(clock.now() + Math.max(1, Math.min(left, LOOK_MS)), signal);
      if (base === undefined) continue;
      const kb = await residentKb(child.pid);
      signal.throwIfAborted();
      if (kb !== undefined && kb - base > 2 * 1_024 * limits.memoryMb) return "memory";
    }
  }

  async function run(input: RunInput): Promise<RunEnd> {
    if (outdated && live !== undefined) await kill(live);
    outdated = false;
    const own = running();
    if (typeof own === "string") return { kind: "unready", detail: own };
    const problem = await own.started;
    if (problem !== undefined) {
      await kill(own);
      return { kind: "unready", detail: problem };
    }
    const began = clock.monotonic();
    const spent = (): number => clock.monotonic() - began;
    const fresh = own.runs === 0;
    const request = { ...input, run: ++own.runs };
    // Not a race with `gone`: that promise outlives the run, and would keep each answer until the process ends.
    const answer = new Promise<RunAnswer | undefined>((resolve) => {
      own.answered = (given) => {
        if (given === undefined || given.run === request.run) resolve(given);
      };
      if (own.ended) resolve(undefined);
    });
    const over = new AbortController();
    own.child.send(request, () => undefined);
    const watched = overdue(own, over.signal);
    watched.catch(() => undefined);
    const end = await Promise.race([answer, watched]);
    over.abort();
    own.answered = undefined;
    if (typeof end === "object") {
      const ms = spent();
      return "text" in end ? { kind: "made", text: end.text, ms } : { kind: "failed", detail: end.failed, ms };
    }
    const { exitCode, signalCode } = own.child;
    const ms = spent();
    await kill(own);
    if (end === "timeout") return { kind: "timeout", detail: `took longer than ${limits.timeoutMs} ms`, ms, fresh };
    const full = end === "memory" || signalCode === HEAP_FULL.signal || exitCode === HEAP_FULL.code;
    if (full) return { kind: "memory", detail: `used more than ${limits.memoryMb} MiB of memory`, ms, fresh };
    return { kind: "died", detail: `ended its process (${signalCode ?? `exit ${exitCode ?? "?"}`})`, ms, fresh };
  }

  return {
    run,
    prepare: () => void running(),
    get ready() {
      return live?.ready === true;
    },
    retire: () => void (outdated = true),
    async stop() {
      stopped = true;
      if (live !== undefined) await kill(live);
    },
  };
}

/** Resident memory of a process, KiB; `undefined` where the system does not say. */
async function residentKb(pid: number | undefined): Promise<number | undefined> {
  const text = await readFile(`/proc/${pid ?? 0}/status`, "utf8").catch(() => "");
  const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(text) ?? [];
  return kb === undefined ? undefined : Number(kb);
}
