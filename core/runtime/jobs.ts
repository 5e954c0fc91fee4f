/** Jobs: node-cron wakes them (UTC); a tick runs once over all nodes, and what is due stands in storage. */
import cron, { type ScheduledTask } from "node-cron";
import { ConflictError } from "../model/errors.ts";
import { tickKey } from "../model/keys.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import type { Job } from "../ports/plan.ts";

export interface Jobs {
  start(): void;
  /** Nothing more is woken; resolves when what runs has ended. */
  stop(): Promise<void>;
  /** Runs one job now, if no node has run it for this tick. Says whether it ran here. */
  tick(job: Job, at: Date): Promise<boolean>;
}

/** How late a tick may still run: a busy minute must not skip a nightly job. */
const TOLERANCE_MS = 55_000;
/** A tick that was taken so far ahead of this one was taken by a clock that was wrong: it holds up none, ms. */
const WRONG_MS = 3_600_000;

export function createJobs(deps: {
  readonly jobs: readonly Job[];
  readonly storage: Pick<Storage, "getItem" | "commit">;
  readonly run: (job: Job, signal: AbortSignal) => Promise<number>;
  readonly log: Log;
}): Jobs {
  const { jobs, storage, run, log } = deps;
  const stopping = new AbortController();
  const running = new Set<Promise<unknown>>();
  let tasks: ScheduledTask[] = [];

  /** The node that writes the tick first has it. */
  async function won(job: Job, index: string, tick: string): Promise<boolean> {
    const key = tickKey(`${job.name}.${index}`);
    const last = await storage.getItem(key);
    if (last !== undefined && last >= tick && Date.parse(last) - Date.parse(tick) < WRONG_MS) return false;
    try {
      await storage.commit([{ op: "put", key, value: tick, if: last ?? null }]);
      return true;
    } catch (error) {
      if (error instanceof ConflictError) return false;
      throw error;
    }
  }

  async function tick(job: Job, at: Date): Promise<boolean> {
    if (stopping.signal.aborted) return false;
    // To the second: that is how fine a schedule can be.
    const slot = new Date(Math.floor(at.getTime() / 1000) * 1000).toISOString();
    if (!(await won(job, String(jobs.indexOf(job)), slot))) return false;
    const did = await run(job, stopping.signal);
    log.info("job", { job: job.name, tick: slot, count: did });
    return true;
  }

  function wake(job: Job, at: Date): Promise<unknown> {
    const ran = tick(job, at)
      .catch((error: unknown) => log.error("a job failed", { job: job.name, error: String(error) }))
      .finally(() => running.delete(ran));
    running.add(ran);
    return ran;
  }

  return {
    tick,
    start() {
      tasks = jobs.map((job) =>
        cron.schedule(job.schedule, ({ date }) => wake(job, date), {
          timezone: "UTC",
          name: job.name,
          noOverlap: true,
          missedExecutionTolerance: TOLERANCE_MS,
          unref: true,
        }),
      );
    },
    async stop() {
      stopping.abort(new Error("stopping"));
      for (const task of tasks) await task.destroy();
      tasks = [];
      await Promise.all(running);
    },
  };
}
