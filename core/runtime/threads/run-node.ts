/** Runs a node in this thread, and obeys the supervising thread: what it is to do and when it stops. */
import type { MessagePort } from "node:worker_threads";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import { composeRelay, type NodeRelay, type Started } from "../compose/compose.ts";
import type { Reloadable } from "../compose/reload.ts";
import { createLog, createMetrics, type MetricsSnapshot, type RelayLog } from "../observability/index.ts";
import type { SpawnTransforms } from "../transforms/worker.ts";
import { keepHeapTidy } from "../v8-settings.ts";
import { createLink } from "./link.ts";
import { BEAT_MS, type ThreadsState, type ThreadStart } from "./node-thread.ts";
import { threadPlan } from "./thread-plan.ts";

const EX_SOFTWARE = 70;
/** See `runRelay`: the garbage of a start is collected this long after it, ms. */
const TIDY_AFTER_MS = 1_000;

/**
 * @param given.load reads the config; each thread reads it for itself, because a plug-in cannot cross
 * @param given.parent takes the lines of the log at once, also when this thread ends by a fault
 */
export function runNode(given: {
  readonly start: ThreadStart;
  readonly parent: Pick<MessagePort, "postMessage">;
  readonly load: () => Promise<Plan>;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly transforms: SpawnTransforms;
}): void {
  const { start, parent, load, clock, env, transforms } = given;
  const { index, count, feed } = start;
  const metrics = createMetrics();
  const over = new AbortController();
  let state: ThreadsState = { count, running: 0, replaced: 0, underWay: 0, parts: {} };
  let running: { readonly relay: NodeRelay; readonly log: RelayLog } | undefined;

  async function begin(): Promise<Started> {
    const plan = threadPlan(await load(), start, clock);
    const log = createLog(plan.log.level, {
      write: (lines) => parent.postMessage(lines),
      readable: start.readable,
      clock,
    });
    const relay = composeRelay(plan, {
      clock,
      log,
      // One thread has a part of the metrics only, so its `/metrics` shows those of the whole process.
      metrics: { ...metrics, text: () => link.call<string>("metrics", []) },
      env,
      transforms,
      thread: { index, count, feed, state: () => state },
    });
    running = { relay, log };
    process.on("uncaughtException", (error: unknown) => {
      log.error("a fault of the relay itself", { detail: error instanceof Error ? error.stack : String(error) });
      process.exit(EX_SOFTWARE);
    });
    const started = await relay.start();
    void clock.sleep(clock.now() + TIDY_AFTER_MS, over.signal).then(
      () => keepHeapTidy(clock, over.signal),
      () => undefined,
    );
    return started;
  }

  async function end(): Promise<void> {
    over.abort();
    await running?.relay.stop();
    await running?.log.flush();
  }

  const calls: Readonly<Record<string, (...args: never[]) => unknown>> = {
    start: begin,
    stop: end,
    reload: (next: Reloadable) => running?.relay.reload(next) ?? [],
    snapshot: (): Promise<MetricsSnapshot> => metrics.snapshot(),
    state: (now: ThreadsState) => void (state = now),
  };
  const link = createLink(start.control, (method, args) => calls[method]?.(...(args as never[])));

  async function beat(): Promise<void> {
    for (;;) {
      const own = running?.relay.threadBeat();
      link.send("beat", own ?? { underWay: 0, parts: {} });
      await clock.sleep(clock.now() + BEAT_MS);
    }
  }
  void beat();
}
