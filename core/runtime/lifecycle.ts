/** Starting and stopping. Start follows the data path; stop is the data path again. Both may be called twice, or half way. */

export interface Step {
  readonly name: string;
  start(): Promise<void> | void;
  /** @param graceMs what is left of the deadline for this step */
  stop(graceMs: number): Promise<void> | void;
}

export interface Lifecycle {
  /** Steps in order; when one fails, those that were started are stopped again. @throws what the step threw */
  start(): Promise<void>;
  /** Every started step, in the order of `stopping`, each within what is left of the deadline; never rejects. */
  stop(): Promise<void>;
  readonly state: () => "idle" | "starting" | "running" | "stopping" | "stopped";
}

export function createLifecycle(deps: {
  readonly steps: readonly Step[];
  /** Names of steps in the order in which they stop. */
  readonly stopping: readonly string[];
  readonly shutdownMs: number;
  readonly monotonic: () => number;
  readonly failed: (step: string, error: unknown) => void;
}): Lifecycle {
  const { steps, stopping, shutdownMs, monotonic, failed } = deps;
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

  async function end(): Promise<void> {
    state = "stopping";
    const deadline = monotonic() + shutdownMs;
    for (const name of stopping) {
      const step = steps.find((one) => one.name === name);
      if (step === undefined || !begun.has(name)) continue;
      try {
        await step.stop(Math.max(0, deadline - monotonic()));
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
      // A start under way sees `stopped` between its steps and goes no further.
      stopped ??= (starting ?? Promise.resolve()).catch(() => undefined).then(end);
      await stopped;
    },
  };
}
