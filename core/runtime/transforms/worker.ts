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

/** Asks a process for one run. The next request follows its answer. */
export interface RunRequest {
  /** Tells the answer of this run from a late one. */
  readonly run: number;
  readonly name: string;
  /** The delivery body of the event, as stored. */
  readonly body: string;
  readonly context: TransformContext;
}

/** The first message of a process: it has loaded the config, or why it cannot. */
export type ProcessStart = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/** The result of one run: the body to send, or why there is none. */
export type RunAnswer =
  | { readonly run: number; readonly text: string }
  | { readonly run: number; readonly failed: string; readonly threw: boolean };

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

/** How often time and memory of a run are checked, ms. */
const CHECK_MS = 50;
/** Longest time that a process may take to load the config, and to be gone once it is killed, ms. */
const START_MS = 30_000;
const GONE_MS = 5_000;
/** V8 ends its process with this signal, or on some systems with this code, when its heap is full. */
const HEAP_FULL = { signal: "SIGABRT", code: 134 };

/** A process, from its start until it is gone. */
class Process {
  readonly child: ChildProcess;
  /** Resolves when the config is loaded, to why it cannot be used where it cannot. */
  readonly started = Promise.withResolvers<string | undefined>();
  readonly gone = Promise.withResolvers<void>();
  /** Called with the answer to a run; `undefined`: the process is gone. */
  answered: ((answer: RunAnswer | undefined) => void) | undefined;
  ready = false;
  ended = false;
  runs = 0;
  /** Resident memory once the config was loaded, KiB; `undefined` where it cannot be read. */
  base: number | undefined;

  constructor(child: ChildProcess) {
    this.child = child;
    child.on("error", ({ message }) => {
      child.kill("SIGKILL");
      this.#end(`the process cannot be started: ${message}`);
    });
    child.on("exit", (code, signal) => this.#end(`its process ended (${endOf(code, signal)}) while it started`));
    child.on("message", (message: ProcessStart | RunAnswer) => {
      if (!("ready" in message)) this.answered?.(message);
      else if (!message.ready) this.started.resolve(message.reason);
      else void this.#loaded();
    });
  }

  async #loaded(): Promise<void> {
    this.base = await residentKb(this.child.pid);
    this.ready = true;
    this.started.resolve(undefined);
  }

  #end(why: string): void {
    this.ended = true;
    this.started.resolve(why);
    this.gone.resolve();
    this.answered?.(undefined);
  }

  /** Sends one run. Resolves to its answer, or to `undefined` when the process is gone first. */
  ask(input: RunInput): Promise<RunAnswer | undefined> {
    const run = ++this.runs;
    // Not a race with `gone`: that promise outlives the run, and would keep each answer until the process ends.
    const answer = new Promise<RunAnswer | undefined>((resolve) => {
      this.answered = (given) => {
        if (given === undefined || given.run === run) resolve(given);
      };
      if (this.ended) resolve(undefined);
    });
    this.child.send({ ...input, run }, () => undefined);
    return answer;
  }
}

interface WorkerDeps {
  readonly spawn: SpawnTransforms;
  readonly limits: TransformLimits;
  readonly clock: Clock;
}

export class TransformWorker {
  readonly #deps: WorkerDeps;
  #process: Process | undefined;
  #outdated = false;
  #stopped = false;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
  }

  /** True when a process is there that has loaded the config. */
  get ready(): boolean {
    return this.#live()?.ready === true;
  }

  /** Starts the process now, so that the next run need not wait for it. */
  prepare(): void {
    this.#running();
  }

  /** Ends the process before the next run, which then finds the config as it is by then. */
  retire(): void {
    this.#outdated = true;
  }

  /** Ends the process. Resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#kill(this.#live());
  }

  /** Never rejects. Call it again only when it has resolved. */
  async run(input: RunInput): Promise<RunEnd> {
    const { limits, clock } = this.#deps;
    if (this.#outdated) await this.#kill(this.#live());
    this.#outdated = false;
    const own = this.#running();
    if (typeof own === "string") return { kind: "unready", detail: own };
    const problem = await own.started.promise;
    if (problem !== undefined) {
      await this.#kill(own);
      return { kind: "unready", detail: problem };
    }
    const began = clock.monotonic();
    const fresh = own.runs === 0;
    const over = new AbortController();
    const answer = own.ask(input);
    const overdue = this.#overdue(own, over.signal);
    overdue.catch(() => undefined);
    const end = await Promise.race([answer, overdue]);
    over.abort();
    own.answered = undefined;
    const ms = clock.monotonic() - began;
    if (typeof end === "object")
      return "text" in end ? { kind: "made", text: end.text, ms } : { kind: "failed", detail: end.failed, ms };
    const { exitCode: code, signalCode: signal } = own.child;
    await this.#kill(own);
    if (end === "timeout") return { kind: "timeout", detail: `took longer than ${limits.timeoutMs} ms`, ms, fresh };
    const full = end === "memory" || signal === HEAP_FULL.signal || code === HEAP_FULL.code;
    if (full) return { kind: "memory", detail: `used more than ${limits.memoryMb} MiB of memory`, ms, fresh };
    return { kind: "died", detail: `ended its process (${endOf(code, signal)})`, ms, fresh };
  }

  #live(): Process | undefined {
    return this.#process?.ended === false ? this.#process : undefined;
  }

  /** Returns the process, or why there is none: a machine without memory refuses one with an exception. */
  #running(): Process | string {
    if (this.#stopped) return "the relay stops";
    try {
      return this.#live() ?? this.#start();
    } catch (error) {
      return `the process cannot be started: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  #start(): Process {
    const { spawn, limits, clock } = this.#deps;
    const made = (this.#process = new Process(spawn(limits)));
    void within(clock, START_MS, made.started.promise).then((inTime) => {
      if (!inTime) made.child.kill("SIGKILL");
    });
    return made;
  }

  /** Kills a process and waits until it is gone, so that there are never more of them than workers. */
  async #kill(one: Process | undefined): Promise<void> {
    if (one === undefined) return;
    if (this.#process === one) this.#process = undefined;
    one.child.kill("SIGKILL");
    await within(this.#deps.clock, GONE_MS, one.gone.promise);
  }

  /** Resolves when the run may go on no longer; never when the signal aborts first. */
  async #overdue({ child, base }: Process, signal: AbortSignal): Promise<"timeout" | "memory"> {
    const { limits, clock } = this.#deps;
    const began = clock.monotonic();
    let late = false;
    for (;;) {
      const left = limits.timeoutMs - (clock.monotonic() - began);
      // A check after the end: the answer may have come while this process itself was held up.
      if (left <= 0 && late) return "timeout";
      late = left <= 0;
      await clock.sleep(clock.now() + Math.max(1, Math.min(left, CHECK_MS)), signal);
      if (base === undefined) continue;
      const kb = await residentKb(child.pid);
      signal.throwIfAborted();
      if (kb !== undefined && kb - base > 2 * 1_024 * limits.memoryMb) return "memory";
    }
  }
}

const endOf = (code: number | null, signal: NodeJS.Signals | null): string => signal ?? `exit ${code ?? "?"}`;

/** Reads the resident memory of a process, KiB; `undefined` where the system does not say. */
async function residentKb(pid: number | undefined): Promise<number | undefined> {
  const text = await readFile(`/proc/${pid ?? 0}/status`, "utf8").catch(() => "");
  const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(text) ?? [];
  return kb === undefined ? undefined : Number(kb);
}
