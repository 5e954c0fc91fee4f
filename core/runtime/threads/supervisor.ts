/**
 * Runs a node in each of several threads, as one relay. It holds the storage that they share, replaces a thread that dies
 * or hangs, and speaks for all of them.
 */
import { randomId } from "../../model/ids.ts";
import { StartError } from "../../model/errors.ts";
import { within } from "../../lib/within.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Relay, SetupContext, Started } from "../compose/compose.ts";
import { createReload, reloadable, type Reloadable } from "../compose/reload.ts";
import type { ProcessLog } from "../observability/index.ts";
import { claimPort } from "../server.ts";
import { holdStorage, type HeldStorage } from "./held-storage.ts";
import { createMergedMetrics } from "./merged-metrics.ts";
import { BEAT_MS, worstOf, type ThreadsState } from "./node-thread.ts";
import { startNodeWorker, type NodeWorker, type Spawn } from "./node-worker.ts";
import { createSoonEnded } from "./soon-ended.ts";
import { CLOSING_MS } from "./thread-plan.ts";

/** So often in a row may a thread end soon while no other one runs. */
const MOST_VAIN = 5;
/** How long the reading of one thread's metrics may take, ms. */
const READING_MS = 2_000;

export interface ThreadsDeps extends SetupContext {
  readonly log: ProcessLog;
  readonly spawn: Spawn;
  /** Whether the log has lines for people. */
  readonly readable: boolean;
  /** No thread can be kept alive: the process should end, so that its service manager starts another. */
  readonly gaveUp: () => void;
}

/** @param count of threads, at least 2 */
export function composeThreads(plan: Plan, count: number, deps: ThreadsDeps): Relay {
  const { clock, log, metrics, spawn, readable, gaveUp } = deps;
  const feed = randomId("feed");
  const workers = new Map<number, NodeWorker>();
  const merged = createMergedMetrics();
  const over = new AbortController();
  const soonEnded = createSoonEnded();
  let held: HeldStorage | undefined;
  let port: number | undefined;
  let replaced = 0;
  /** What every thread runs with, also one that reads a config which was changed meanwhile. */
  let reloaded: Reloadable = reloadable(plan);
  const compare = createReload(reloaded, {
    limiter: () => ({ configure: () => undefined }),
    catalogue: () => ({ replace: () => undefined }),
    transforms: () => undefined,
    log,
  });
  let starting: Promise<Started> | undefined;
  let stopping: Promise<void> | undefined;
  // The threads hand their lines on: only this one can lose some.
  metrics.onRead(() => metrics.gauge("log_lines_dropped", log.dropped()));

  const living = (): NodeWorker[] => [...workers.values()].filter(({ running }) => running);

  function state(): ThreadsState {
    const all = living();
    const underWay = all.reduce((sum, { beat }) => sum + beat.underWay, 0);
    const parts = worstOf([held?.parts() ?? {}, ...all.map(({ beat }) => beat.parts)]);
    return { count, running: all.length, replaced, underWay, parts };
  }

  /** Tells every thread how all of them are. */
  function announce(): void {
    const now = state();
    metrics.gauge("threads", now.running);
    for (const { link } of workers.values()) link.send("state", now);
  }

  async function processMetrics(): Promise<string> {
    const read = living().map(async (node) => {
      const reading = node.link.call<NonNullable<NodeWorker["metrics"]>>("snapshot", [], (now) => (node.metrics = now));
      await within(clock, READING_MS, reading).catch(() => false);
      return node.metrics;
    });
    const snapshots = [...(await Promise.all(read)), await metrics.snapshot()];
    return merged.text(snapshots.filter((one) => one !== undefined));
  }

  /** Starts the thread of this index. @throws what its start throws */
  async function run(index: number): Promise<Started> {
    const connected = held?.connect();
    let node: NodeWorker;
    try {
      node = startNodeWorker({
        spawn,
        start: { index, count, storage: connected?.port, port, feed, readable },
        now: clock.monotonic(),
        lines: log.addLines,
        processMetrics,
      });
    } catch (error) {
      // Where the system has no room for a thread, nobody would answer what the storage asks over that port.
      await connected?.left();
      throw error;
    }
    workers.set(index, node);
    void node.ended.then(async (end) => {
      await connected?.left();
      if (node.metrics !== undefined) merged.add(node.metrics);
      node.metrics = undefined;
      // Its successor may have started while the storage released this one.
      if (workers.get(index) === node) workers.delete(index);
      if (stopping !== undefined || !started.has(node)) return;
      const { exitCode, error, hung } = end;
      const why = hung ? "it gave no sign of life" : (error?.message ?? "it exited");
      log.error("a thread ended and is replaced", { thread: index, exitCode, error: why });
      metrics.count("threads_replaced", { reason: hung ? "hung" : "died" });
      replaced++;
      announce();
      soonEnded.ended(index, clock.monotonic() - node.began);
      await replace(index);
    });
    const began = await node.start();
    node.link.send("reload", reloaded);
    started.add(node);
    announce();
    return began;
  }
  /** Threads whose node has served: those that did not are replaced by who started them. */
  const started = new WeakSet<NodeWorker>();

  /** Starts another thread in place of one that ended, again and again until one serves. */
  async function replace(index: number): Promise<void> {
    while (!over.signal.aborted) {
      const times = soonEnded.times(index);
      if (times >= MOST_VAIN && living().length === 0) {
        log.error("no thread can be kept alive", { thread: index, count: times });
        return gaveUp();
      }
      try {
        await clock.sleep(clock.now() + soonEnded.pauseMs(index), over.signal);
        await run(index);
        return log.info("a thread has been replaced", { thread: index });
      } catch (error) {
        if (over.signal.aborted) return;
        log.error("a thread cannot start", { thread: index, error: String(error) });
        soonEnded.ended(index, 0);
        workers.get(index)?.kill();
        await workers.get(index)?.ended;
      }
    }
  }

  async function look(): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + BEAT_MS, over.signal);
      for (const node of workers.values()) node.look();
      announce();
    }
  }

  async function begin(): Promise<Started> {
    // Several listeners may share a port, also with those of another process: nobody else may have it at the start.
    await claimPort(plan.server);
    if (plan.storage.shared !== true) held = await holdStorage(plan, deps);
    // The first one makes the keys, and gets the port where any will do.
    const first = await run(0);
    port = Number(new URL(first.url).port);
    look().catch(() => undefined);
    await Promise.all(Array.from({ length: count - 1 }, (_, i) => run(i + 1)));
    return first;
  }

  async function end(): Promise<void> {
    over.abort(new Error("stopping"));
    const all = [...workers.values()];
    const ended = Promise.all(
      all.map(async (node) => {
        await node.link.call("stop", []).catch(() => undefined);
        node.kill();
        await node.ended;
      }),
    );
    const graceMs = Math.max(plan.server.shutdownMs / 2, plan.server.shutdownMs - CLOSING_MS);
    if (!(await within(clock, graceMs, ended))) log.error("a thread did not stop in time", { count: workers.size });
    for (const node of workers.values()) node.kill();
    await within(clock, CLOSING_MS, Promise.all(all.map((node) => node.ended)));
    await held?.close();
  }

  return {
    async start() {
      try {
        const first = await (starting ??= begin());
        if (stopping !== undefined) throw new StartError(75, "stopped before the start was over");
        return first;
      } catch (error) {
        await (stopping ??= end());
        throw error;
      }
    },
    stop: () => (stopping ??= end()),
    reload(next) {
      reloaded = pick(next);
      for (const { link } of living()) link.send("reload", reloaded);
      return compare(next);
    },
  };
}

/** Only what may change, as the rest of a plan does not cross to a thread. */
const pick = ({ limits, abuse, events, eventTypes, transforms, log }: Reloadable): Reloadable => ({
  ...{ limits, abuse, events, eventTypes, transforms, log },
});
