/** The surface, composed: what the API serves beside the routes of plug-ins. */
import type { AnyOperation } from "../../api/http/operation.ts";
import { ATTEMPT_HISTORY } from "./replay.ts";
import { dashboardRoutes } from "../../dashboard/routes.ts";
import { docsRoutes } from "../../api/reference/page.ts";
import { healthRoutes, type HealthPart } from "../../api/resources/health.ts";
import { openApiRoutes } from "../../api/reference/openapi.ts";
import { createOperations } from "../../api/resources/operations.ts";
import type { Auth } from "../../ports/auth.ts";
import { VERSION } from "../../model/version.ts";
import type { Route } from "../../ports/plugin.ts";
import type { Source } from "../../ports/source.ts";
import { composedGatewayRoutes, servedRoutes } from "./gateway.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { METRICS_READ, metricsRoutes } from "./metrics-route.ts";
import * as path from "./delivery-path.ts";
import { REKEY } from "../keys/rekey.ts";
import { CATALOGUE } from "./reload.ts";
import { relayStatus } from "./status.ts";
import { token, type Get, type Container } from "./container.ts";

export const AUTH = token<Auth>("auth");
export const OPERATIONS = token<readonly AnyOperation[]>("operations");
/** All routes that are no operations: probes, pages, and what plug-ins brought along. */
export const ROUTES = token<readonly Route[]>("routes");
export const SOURCES = token<readonly Source[]>("sources");

export function registerRoutes(house: Container, { state }: { readonly state: Lifecycle["state"] }): void {
  house.make(OPERATIONS, (get) =>
    createOperations({
      storage: get(path.STORAGE),
      clock: get(path.CLOCK_TOKEN),
      keys: get(path.KEYS),
      auth: get(AUTH),
      directory: get(path.SUBSCRIPTION_CACHE),
      subscriptions: get(path.SUBSCRIPTIONS),
      history: get(path.HISTORY),
      attempts: get(ATTEMPT_HISTORY),
      replay: get(path.REPLAY),
      schemes: get(path.TRANSPORTS).flatMap((transport) => transport.schemes),
      events: get(CATALOGUE).now,
      pausedMs: get(path.RETRY_AFTER).leftMs,
      probe: async (id) => {
        await Promise.all([get(path.CLUSTER).tell("probe", id), get(path.CIRCUIT_BREAKER).probe(id)]);
      },
      rekey: (actor) => get(REKEY).run(actor),
      ping: get(path.TEST_EVENT).send,
      feed: get(path.LIVE_FEED),
      figures: {
        stats: (keyId, range, subscriptionId) => get(path.STATS_QUERY).ofKey(keyId, range, subscriptionId),
        status: async () => relayStatus(get, state(), await readiness(house, state())),
        relay: (range) => get(path.STATS_QUERY).ofRelay(range),
      },
    }),
  );
  house.make(ROUTES, (get) => {
    const own = healthRoutes({ clock: get(path.CLOCK_TOKEN), readiness: () => readiness(house, state()) });
    const operations = get(OPERATIONS);
    const brought = [...(get(AUTH).routes ?? []), ...get(SOURCES).flatMap((source) => source.routes ?? [])];
    const plan = get(path.PLAN);
    const passing = composedGatewayRoutes(house, plan);
    const documented = openApiRoutes({
      operations,
      routes: [...own, ...brought, ...servedRoutes(passing, plan)],
      version: VERSION,
    });
    return [
      ...own,
      ...brought,
      ...documented,
      ...docsRoutes(),
      ...(plan.dashboard ? dashboard(get) : []),
      ...metricsRoutes(get(METRICS_READ), plan.metrics),
      ...passing,
    ];
  });
}

/** The page at `/developers`. It logs in with the accounts that the relay keeps, or takes tokens from elsewhere. */
function dashboard(get: Get): readonly Route[] {
  const { firstRun } = get(AUTH);
  return dashboardRoutes({ firstRun, userAgent: `Relay/${VERSION}` });
}

/** The truth about each part, asked anew at each probe. */
export async function readiness(
  house: Container,
  state: ReturnType<Lifecycle["state"]>,
): Promise<Readonly<Record<string, HealthPart>>> {
  const storage = await house
    .get(path.STORAGE)
    .status()
    .then(
      (): HealthPart => ({ ready: true }),
      (): HealthPart => ({ ready: false, state: "does not answer" }),
    );
  const auth: HealthPart = house.get(AUTH).ready() ? { ready: true } : { ready: false, state: "has no keys yet" };
  return { relay: { ready: state === "running", state }, storage, auth };
}
