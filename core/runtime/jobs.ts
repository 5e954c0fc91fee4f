/** Runs the scheduled jobs: node-cron reads their schedules (UTC), and each tick runs once over all nodes. */
import cron, { type ScheduledTask } from "node-cron";
import { TICK } from "../model/schema.ts";
import { tellTicks } from "../lib/ticks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { Job } from "../ports/plan.ts";
import { tryCommit } from "../records/transaction.ts";

interface Jobs {
  start(): void;
  /** Wakes nothing more; resolves when the running jobs have ended. */
  stop(): Promise<void>;
  /** Runs one job now, unless a node has run it for this tick. @returns whether it ran here */
  tick(job: Job, at: Date): Promise<boolean>;
}

/** A stored tick that is this far ahead, ms, came from a wrong clock and blocks no job. */
const WRONG_MS = 3_600_000;

export function createJobs(deps: {
  readonly jobs: readonly Job[];
  readonly storage: Pick<Storage, "getItem" | "commit">;
  readonly run: (job: Job, signal: AbortSignal) => Promise<number>;
  readonly log: Log;
  readonly clock: Pick<Clock, "now" | "sleep">;
}): Jobs {
  const { jobs, storage, run, log, clock } = deps;
  const stopping = new AbortController();
  const running = new Map<Job, Promise<unknown>>();
  let tasks: ScheduledTask[] = [];

  /** Claims the tick for this node; false when another node has it. */
  async function won(job: Job, index: string, tick: string): Promise<boolean> {
    const key = TICK.key({ job: `${job.name}.${index}` });
    const last = await storage.getItem(key);
    if (last !== undefined && last >= tick && Date.parse(last) - Date.parse(tick) < WRONG_MS) return false;
    return await tryCommit(storage, [{ op: "put", key, value: tick, if: last ?? null }]);
  }

  async function tick(job: Job, at: Date): Promise<boolean> {
    if (stopping.signal.aborted) return false;
    // Rounded to the second, the finest step of a schedule.
    const slot = new Date(Math.floor(at.getTime() / 1000) * 1000).toISOString();
    if (!(await won(job, String(jobs.indexOf(job)), slot))) return false;
    const did = await run(job, stopping.signal);
    log.info("job", { job: job.name, tick: slot, count: did });
    return true;
  }

  /** Leaves a tick out while the job still runs for an earlier one. */
  function wake(job: Job, at: Date): void {
    if (running.has(job)) return log.warn("a job still runs, and a tick of it is left out", { job: job.name });
    const ran = tick(job, at)
      .catch((error: unknown) => log.error("a job failed", { job: job.name, error: String(error) }))
      .finally(() => running.delete(job));
    running.set(job, ran);
  }

  return {
    tick,
    start() {
      tasks = jobs.map((job) => {
        const task = cron.createTask(job.schedule, () => undefined, { timezone: "UTC", name: job.name });
        const schedule = { expression: job.schedule, matches: (at: Date): boolean => task.match(at) };
        void tellTicks(clock, schedule, stopping.signal, (at) => wake(job, at));
        return task;
      });
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      for (const task of tasks) await task.destroy();
      tasks = [];
      await Promise.all(running.values());
    },
  };
}
