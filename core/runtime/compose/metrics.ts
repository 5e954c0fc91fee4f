/** Serves `GET /metrics`, and refreshes the gauges that it shows: backlog, leases, readiness, space. */
import { statfs } from "node:fs/promises";
import { createApp, type AppDeps } from "../../api/http/app.ts";
import { isReady } from "../../api/resources/health.ts";
import { bearerCheck } from "../../model/token.ts";
import { HELD } from "../../model/schema.ts";
import { Problem } from "../../model/problem.ts";
import { seldom } from "../../lib/seldom.ts";
import { VERSION } from "../../model/version.ts";
import { within } from "../../lib/within.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Route } from "../../ports/plugin.ts";
import { countWaiting } from "../../records/sequence-rows.ts";
import type { Step } from "../lifecycle.ts";
import type { RelayMetrics } from "../observability/index.ts";
import { METRICS_TYPE } from "../observability/metrics.ts";
import { listen, type Listening } from "../server.ts";
import type { DeliveryPath } from "./path.ts";
import type { ReadParts } from "./readiness.ts";

/** @param token asked for as Bearer; without one anybody who reaches the route may read */
function metricsRoute(metrics: Pick<RelayMetrics, "text">, token: string | undefined): Route {
  const mayRead = token === undefined ? () => true : bearerCheck(token);
  return {
    method: "GET",
    path: "/metrics",
    async handle(request) {
      if (!mayRead(request.header("authorization")))
        throw new Problem("UNAUTHENTICATED", "Send the metrics token as Authorization: Bearer.");
      return { status: 200, headers: { "content-type": METRICS_TYPE }, body: await metrics.text() };
    },
  };
}

/** The route on the main server: only where a token protects it and it has no port of its own. */
export const metricsRoutes = (metrics: Pick<RelayMetrics, "text">, { token: set, port }: Plan["metrics"]): Route[] =>
  port === undefined && set !== undefined ? [metricsRoute(metrics, set)] : [];

/** The server on a port of its own. It is closed late, so that a drain can be watched. */
export function metricsStep(plan: Plan, metrics: Pick<RelayMetrics, "text">, deps: () => AppDeps): Step {
  let listening: Listening | undefined;
  return {
    name: "metrics",
    async start() {
      const { port, token: set } = plan.metrics;
      if (port === undefined) return;
      const app = createApp({ ...deps(), operations: [], routes: [metricsRoute(metrics, set)] });
      listening = await listen(app, { ...plan.server, port });
    },
    stop: (graceMs) => listening?.close(Math.min(graceMs, 500)),
  };
}

export interface GaugeDeps {
  readonly metrics: Pick<RelayMetrics, "gauge" | "onRead">;
  readonly path: Pick<DeliveryPath, "plan" | "clock" | "storage" | "dispatcher" | "gates">;
  readonly readiness: ReadParts;
  /** Lines of the log that were lost. */
  readonly dropped: () => number;
}

/** Held deliveries that are counted; there is seldom one. */
const MOST_HELD = 1_000;
/** Longest wait for a gauge; it then keeps its last value. */
const READ_MS = 2_000;

/** Refreshes the gauges before each reading from now on. A gauge that cannot be read keeps its last value. */
export function refreshGauges({ metrics, path, readiness, dropped }: GaugeDeps): void {
  const { plan, clock, storage, dispatcher, gates } = path;
  // Metrics also show a storage that never answers, so they do not wait for it.
  const onRead = (read: () => Promise<void>): void =>
    metrics.onRead(async () => void (await within(clock, READ_MS, read())));
  metrics.gauge("build_info", 1, { version: VERSION, node: process.version });
  metrics.onRead(() => {
    metrics.gauge("leases", dispatcher.underWay());
    metrics.gauge("log_lines_dropped", dropped());
    for (const reason of ["failing", "retry_after"] as const)
      metrics.gauge("subscriptions_paused", gates.count(reason), { reason });
  });
  onRead(async () => {
    const { waiting, oldestDueAt } = await storage.queue.depth();
    metrics.gauge("backlog", waiting);
    const lateMs = oldestDueAt === undefined ? 0 : Math.max(0, clock.now() - oldestDueAt);
    metrics.gauge("oldest_due_seconds", lateMs / 1_000);
  });
  const waitingInOrder = seldom(() => countWaiting(storage), clock);
  onRead(async () => {
    metrics.gauge("ordered_waiting", await waitingInOrder());
    metrics.gauge("ordered_held", (await storage.range(HELD.start, { limit: MOST_HELD })).length);
  });
  onRead(async () => {
    const parts = await readiness();
    metrics.gauge("ready", isReady(parts) ? 1 : 0);
    metrics.gauge("parts_not_ready", Object.values(parts).filter(({ ready }) => !ready).length);
  });
  onRead(async () => {
    const { bytes, usedBytes } = await storage.status();
    const used = bytes ?? usedBytes;
    if (typeof used === "number") metrics.gauge("storage_bytes", used);
  });
  onRead(async () => {
    const { bavail, bsize } = await statfs(plan.dataDir);
    metrics.gauge("disk_free_bytes", bavail * bsize);
  });
}
