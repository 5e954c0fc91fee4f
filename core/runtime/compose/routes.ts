/** Composes what the server answers: operations of the API, probes, pages, and the routes that plug-ins bring along. */
import type { AnyOperation } from "../../api/http/operation.ts";
import { docsRoutes } from "../../api/reference/page.ts";
import { openApiRoutes } from "../../api/reference/openapi.ts";
import { healthRoutes } from "../../api/resources/health.ts";
import { createOperations } from "../../api/resources/operations.ts";
import { webhookKeyRoutes } from "../../api/resources/webhook-keys.ts";
import type { PortalOffer } from "../../api/resources/portal-links.ts";
import { assetsOnce } from "../../dashboard/assets.ts";
import { portalRoutes } from "../../dashboard/portal.ts";
import { dashboardRoutes } from "../../dashboard/routes.ts";
import { StartError } from "../../model/errors.ts";
import { sameRoute } from "../../model/route-name.ts";
import { VERSION } from "../../model/version.ts";
import type { Route } from "../../ports/plugin.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { RelayMetrics } from "../observability/index.ts";
import type { ThreadPlace } from "../threads/node-thread.ts";
import { servedRoutes } from "./gateway.ts";
import { wrapped } from "./observers.ts";
import { metricsRoutes } from "./metrics-route.ts";
import type { OpenPorts } from "./open-ports.ts";
import type { DeliveryPath } from "./parts.ts";
import { readiness } from "./readiness.ts";
import { relayStatus } from "./status.ts";

interface ServedParts {
  readonly ports: Pick<
    OpenPorts,
    "auth" | "observers" | "rekey" | "sources" | "storage" | "transports" | "hide" | "incidents"
  >;
  readonly path: DeliveryPath;
  /** Routes of the gateway. */
  readonly gateway: readonly Route[];
  readonly metrics: Pick<RelayMetrics, "text">;
  readonly state: Lifecycle["state"];
  readonly thread?: ThreadPlace | undefined;
  /** Links to the portal, where there is one. */
  readonly portal?: PortalOffer | undefined;
}

/** The operations of the management API. */
export function composeOperations({ ports, path, state, thread, portal }: ServedParts): readonly AnyOperation[] {
  const { auth, rekey } = ports;
  const { storage, transports, cluster, statsQuery } = path;
  return createOperations({
    storage,
    clock: path.clock,
    keys: path.keys,
    auth,
    log: path.log,
    subscriptionCache: path.subscriptionCache,
    subscriptions: path.subscriptions,
    history: path.history,
    attempts: path.attemptHistory,
    searchAttempts: path.attemptSearch,
    replay: path.replay,
    pending: path.pendingDeliveries,
    publish: (request, also) =>
      wrapped(
        ports.observers,
        (one) => one.wrapAccept,
        (given) => path.publisher.accept(given, also),
      )(request),
    eraseEvent: path.eventErasure.erase,
    eraseKey: path.keyErasure.erase,
    schemes: [...new Set(transports.flatMap((transport) => transport.schemes))],
    events: path.catalogue.now,
    types: path.catalogue.types,
    transforms: () => path.transforms?.names() ?? [],
    pausedMs: path.retryAfter.leftMs,
    // A message to the other nodes for each that is paused, and not for every recipient of a wide event.
    async probe(ids) {
      for (const id of await path.circuitBreaker.open(ids)) await cluster.announce("probe", id);
    },
    rekey: (actor) => rekey.run(actor),
    ping: path.testEvent.send,
    preview: path.testEvent.preview,
    feed: path.liveFeed,
    portal,
    figures: {
      stats: (keyId, range, subscriptionId) => statsQuery.ofKey(keyId, range, subscriptionId),
      sums: statsQuery.sumsOf,
      status: async () => relayStatus(path, state(), await readiness(ports, path.plan, state(), thread)),
      relay: (range) => statsQuery.ofRelay(range),
    },
  });
}

/** All routes that are no operations. */
export function composeRoutes(parts: ServedParts, operations: readonly AnyOperation[]): readonly Route[] {
  const { ports, path, gateway, metrics, state, thread } = parts;
  const { auth, sources } = ports;
  const { plan, clock } = path;
  const repeated = plan.signature.headers;
  const own = [
    ...healthRoutes({ clock, readiness: () => readiness(ports, plan, state(), thread) }),
    ...webhookKeyRoutes(path.webhookKeys ?? []),
  ];
  const fromPlugins = [...(auth.routes ?? []), ...sources.flatMap((source) => source?.routes ?? [])];
  const look = { userAgent: `Relay/${VERSION}`, repeated, assets: assetsOnce() };
  const page = [
    ...(plan.dashboard ? dashboardRoutes({ firstRun: auth.firstRun, portal: plan.portal !== false, ...look }) : []),
    ...(plan.portal ? portalRoutes(plan.portal, look) : []),
  ];
  const documented = openApiRoutes({
    operations,
    routes: [...own, ...fromPlugins, ...servedRoutes(gateway, plan)],
    undescribable({ method, path: at }, error) {
      const owners = [
        { plugin: plan.auth, routes: auth.routes ?? [] },
        ...sources.map((source, i) => ({ plugin: plan.sources[i], routes: source?.routes ?? [] })),
      ];
      const { plugin } =
        owners.find(({ routes }) => routes.some((one) => one.method === method && one.path === at)) ?? {};
      if (plugin === undefined) throw error;
      ports.incidents.note(plugin, `describe ${method} ${at}`, error);
    },
    types: path.catalogue.types,
    version: VERSION,
    repeated,
  });
  const relays = [
    ...own,
    ...documented,
    ...docsRoutes(),
    // A plug-in may have the bare address for itself.
    ...page.filter((route) => !fromPlugins.some(({ path: taken }) => taken === route.path)),
    ...metricsRoutes(metrics, plan.metrics),
    ...gateway,
  ];
  refuseSame([
    { name: "relay", routes: [...relays, ...operations] },
    { name: plan.auth.name, routes: auth.routes },
    ...sources.map((source, i) => ({ name: plan.sources[i]?.name ?? "", routes: source?.routes })),
  ]);
  return [...fromPlugins, ...relays];
}

interface Server {
  /** Of the plug-in. */
  readonly name: string;
  readonly routes?: readonly Pick<Route, "method" | "path">[] | undefined;
}

/** @throws StartError 78 that names both when two plug-ins, or a plug-in and the relay, serve the same route */
function refuseSame(servers: readonly Server[]): void {
  const owners = new Map<string, string>();
  for (const { name, routes = [] } of servers) {
    for (const { method, path } of routes) {
      const owner = owners.get(sameRoute(`${method} ${path}`));
      if (owner === "relay")
        throw new StartError(78, `the plug-in ${name} serves ${method} ${path}, a route of the relay`);
      if (owner !== undefined)
        throw new StartError(78, `the plug-ins ${owner} and ${name} both serve ${method} ${path}`);
    }
    for (const { method, path } of routes) owners.set(sameRoute(`${method} ${path}`), name);
  }
}
