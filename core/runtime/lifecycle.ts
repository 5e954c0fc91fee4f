/** Starting and stopping. Start follows the data path; stop is the data path again. Both may be called twice, or half way. */
import { within } from "../model/within.ts";
import type { Clock } from "../ports/clock.ts";

export interface Step {
  readonly name: string;
  /** The part of what is left of the deadline that its stop may take. @default 1 */
  readonly share?: number;
  start(): Promise<void> | void;
  /** @param graceMs what this step may take of the deadline; then it is left behind */
  stop(graceMs: number): Promise<void> | void;
}

export interface Lifecycle {
  /** Steps in order; when one fails, those that were started are stopped again. @throws what the step threw */
  start(): Promise<void>;
  /** Every started step, in the order of `stopping`, each within what is left of the deadline; never rejects. */
  stop(): Promise<void>;
  readonly state: () => "idle" | "starting" | "running" | "stopping" | "stopped";
}

/** What each step gets even when the deadline has passed: enough to close a file or a socket. */
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
    // A start under way sees `stopped` between its steps and goes no further. One that hangs is left behind.
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
  }

  return {
    state: () => state,
    async start() {
      starting ??= run();
      try {
        await starting;
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
