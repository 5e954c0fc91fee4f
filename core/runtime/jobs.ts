/** Runs the scheduled jobs: node-cron reads their schedules (UTC), and each tick runs once over all nodes. */
import cron, { type ScheduledTask } from "node-cron";
import { TICK } from "../model/schema.ts";
import { tellTicks } from "../lib/ticks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { Job } from "../ports/plan.ts";
import { tryCommit } from "../records/transaction.ts";

/** A stored tick that is this far ahead, ms, came from a wrong clock and blocks no job. */
const WRONG_MS = 3_600_000;

interface JobsDeps {
  readonly jobs: readonly Job[];
  readonly storage: Pick<Storage, "getItem" | "commit">;
  readonly run: (job: Job, signal: AbortSignal) => Promise<number>;
  readonly log: Log;
  readonly clock: Pick<Clock, "now" | "sleep">;
}

export class Jobs {
  readonly #deps: JobsDeps;
  readonly #stopping = new AbortController();
  readonly #running = new Map<Job, Promise<unknown>>();
  #tasks: readonly ScheduledTask[] = [];

  constructor(deps: JobsDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { jobs, clock } = this.#deps;
    this.#tasks = jobs.map((job) => {
      const task = cron.createTask(job.schedule, () => undefined, { timezone: "UTC", name: job.name });
      const schedule = { expression: job.schedule, matches: (at: Date): boolean => task.match(at) };
      void tellTicks(clock, schedule, this.#stopping.signal, (at) => this.#wake(job, at));
      return task;
    });
  }

  /** Wakes nothing more; resolves when the running jobs have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("stopping"));
    for (const task of this.#tasks) await task.destroy();
    await Promise.all(this.#running.values());
  }

  /** Runs one job now, unless a node has run it for this tick. @returns whether it ran here */
  async tick(job: Job, at: Date): Promise<boolean> {
    const { run, log } = this.#deps;
    if (this.#stopping.signal.aborted) return false;
    // Rounded to the second, the finest step of a schedule.
    const slot = new Date(Math.floor(at.getTime() / 1000) * 1000).toISOString();
    if (!(await this.#won(job, slot))) return false;
    const did = await run(job, this.#stopping.signal);
    log.info("job", { job: job.name, tick: slot, count: did });
    return true;
  }

  /** Claims the tick for this node; false when another node has it. */
  async #won(job: Job, tick: string): Promise<boolean> {
    const { jobs, storage } = this.#deps;
    const key = TICK.key({ job: `${job.name}.${jobs.indexOf(job)}` });
    const last = await storage.getItem(key);
    if (last !== undefined && last >= tick && Date.parse(last) - Date.parse(tick) < WRONG_MS) return false;
    return await tryCommit(storage, [{ op: "put", key, value: tick, if: last ?? null }]);
  }

  /** Leaves a tick out while the job still runs for an earlier one. */
  #wake(job: Job, at: Date): void {
    const { log } = this.#deps;
    if (this.#running.has(job)) return log.warn("a job still runs, and a tick of it is left out", { job: job.name });
    const ran = this.tick(job, at)
      .catch((error: unknown) => log.error("a job failed", { job: job.name, error: String(error) }))
      .finally(() => this.#running.delete(job));
    this.#running.set(job, ran);
  }
}
