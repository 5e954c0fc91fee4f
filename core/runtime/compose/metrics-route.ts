/** `GET /metrics`: on the main server behind a token, or on a port of its own; nowhere when neither is set. */
import { createApp, type AppDeps } from "../../api/http/app.ts";
import { bearerCheck } from "../../model/bearer.ts";
import { Problem } from "../../model/problem.ts";
import type { Route } from "../../ports/plugin.ts";
import type { Step } from "../lifecycle.ts";
import type { RelayMetrics } from "../observability/index.ts";
import { METRICS_TYPE } from "../observability/metrics.ts";
import type { Plan } from "../../ports/plan.ts";
import { listen, type Listening } from "../server.ts";

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
