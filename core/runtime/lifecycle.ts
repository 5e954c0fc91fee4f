/** Starts and stops the parts of a relay in the order of the data path. Both may be called twice, stop also during a start. */
import { within } from "../lib/within.ts";
import type { Clock } from "../ports/clock.ts";

export interface Step {
  readonly name: string;
  /** Its stop may take this part of the time that is left until the deadline. @default 1 */
  readonly share?: number;
  start(): Promise<void> | void;
  /** @param graceMs how long this step may take; after that it is no longer waited for */
  stop(graceMs: number): Promise<void> | void;
}

type State = "idle" | "starting" | "running" | "stopping" | "stopped";

/** Least time for each step, even after the deadline: enough to close a file or a socket. */
const LEAST_MS = 100;

interface LifecycleDeps {
  readonly steps: readonly Step[];
  /** Names of steps in the order in which they stop. */
  readonly stopping: readonly string[];
  readonly shutdownMs: number;
  readonly clock: Clock;
  readonly failed: (step: string, error: unknown) => void;
}

export class Lifecycle {
  readonly #deps: LifecycleDeps;
  readonly #begun = new Set<string>();
  readonly #over = Promise.withResolvers<void>();
  #state: State = "idle";
  #starting: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(deps: LifecycleDeps) {
    this.#deps = deps;
  }

  readonly state = (): State => this.#state;

  /** Starts the steps in order. When one fails, stops those that were started. @throws what the step threw */
  async start(): Promise<void> {
    this.#starting ??= this.#run();
    try {
      // One that hangs is over when everything is stopped.
      await Promise.race([this.#starting, this.#over.promise]);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Stops every started step, in the order of `stopping`, each within the time that is left; never rejects. */
  async stop(): Promise<void> {
    await (this.#stopped ??= this.#end());
  }

  async #run(): Promise<void> {
    this.#state = "starting";
    for (const step of this.#deps.steps) {
      if (this.#stopped !== undefined) return;
      this.#begun.add(step.name);
      await step.start();
    }
    if (this.#stopped === undefined) this.#state = "running";
  }

  async #end(): Promise<void> {
    const { steps, stopping, shutdownMs, clock, failed } = this.#deps;
    const deadline = clock.monotonic() + shutdownMs;
    const left = (share = 1): number => Math.max(LEAST_MS, (deadline - clock.monotonic()) * share);
    // A start under way sees `#stopped` between its steps and goes no further. A start that hangs is not waited for.
    if (this.#starting !== undefined) await this.#bounded(left(1 / 2), this.#starting).catch(() => undefined);
    this.#state = "stopping";
    for (const name of stopping) {
      const step = steps.find((one) => one.name === name);
      if (step === undefined || !this.#begun.has(name)) continue;
      try {
        const graceMs = left(step.share);
        await this.#bounded(graceMs, step.stop(graceMs));
      } catch (error) {
        failed(name, error);
      }
    }
    this.#state = "stopped";
    this.#over.resolve();
  }

  /** @throws Error when it takes longer */
  async #bounded(ms: number, work: Promise<void> | void): Promise<void> {
    if (!(await within(this.#deps.clock, ms, Promise.resolve(work))))
      throw new Error(`not done within ${Math.round(ms)} ms`);
  }
}
