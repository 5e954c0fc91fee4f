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

export interface Lifecycle {
  /** Starts the steps in order. When one fails, stops those that were started. @throws what the step threw */
  start(): Promise<void>;
  /** Stops every started step, in the order of `stopping`, each within the time that is left; never rejects. */
  stop(): Promise<void>;
  readonly state: () => "idle" | "starting" | "running" | "stopping" | "stopped";
}

/** Least time for each step, even after the deadline: enough to close a file or a socket. */
const LEAST_MS = 100;

export function createLifecycle(deps: {
  readonly steps: readonly Step[];
  /** Names of steps in the order in which they stop. */
  readonly stopping: readonly string[];
  readonly shutdownMs: number;
  readonly clock: Clock;
  readonly failed: (step: string, error: unknown) => void;
}): Lifecycle {
  const { steps, stopping, shutdownMs, clock, failed } = deps;
  const begun = new Set<string>();
  let state: ReturnType<Lifecycle["state"]> = "idle";
  let starting: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  const over = Promise.withResolvers<void>();

  async function run(): Promise<void> {
    state = "starting";
    for (const step of steps) {
      if (stopped !== undefined) return;
      begun.add(step.name);
      await step.start();
    }
    if (stopped === undefined) state = "running";
  }

  /** @throws Error when it takes longer */
  async function bounded(ms: number, work: Promise<void> | void): Promise<void> {
    if (!(await within(clock, ms, Promise.resolve(work)))) throw new Error(`not done within ${Math.round(ms)} ms`);
  }

  async function end(): Promise<void> {
    const deadline = clock.monotonic() + shutdownMs;
    const left = (share = 1): number => Math.max(LEAST_MS, (deadline - clock.monotonic()) * share);
    // A start under way sees `stopped` between its steps and goes no further. A start that hangs is not waited for.
    if (starting !== undefined) await bounded(left(1 / 2), starting).catch(() => undefined);
    state = "stopping";
    for (const name of stopping) {
      const step = steps.find((one) => one.name === name);
      if (step === undefined || !begun.has(name)) continue;
      try {
        const graceMs = left(step.share);
        await bounded(graceMs, step.stop(graceMs));
      } catch (error) {
        failed(name, error);
      }
    }
    state = "stopped";
    over.resolve();
  }

  return {
    state: () => state,
    async start() {
      starting ??= run();
      try {
        // One that hangs is over when everything is stopped.
        await Promise.race([starting, over.promise]);
      } catch (error) {
        await (stopped ??= end());
        throw error;
      }
    },
    async stop() {
      await (stopped ??= end());
    },
  };
}
