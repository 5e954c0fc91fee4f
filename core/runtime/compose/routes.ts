/** Composes what the server answers: operations of the API, probes, pages, and the routes that plug-ins bring along. */
import { hostname } from "node:os";
import type { TLSSocket } from "node:tls";
import type { Call } from "../../api/http/call.ts";
import type { AnyOperation } from "../../api/http/operation.ts";
import { PortalLinks, withPortal } from "../../api/portal/links.ts";
import { openApiRoutes } from "../../api/reference/openapi.ts";
import type { PortalOffer } from "../../api/resources/deps.ts";
import { healthRoutes } from "../../api/resources/health.ts";
import { createOperations } from "../../api/resources/operations.ts";
import { webhookKeyRoutes } from "../../api/resources/webhook-keys.ts";
import { StartError } from "../../model/errors.ts";
import { isLoopbackHost } from "../../lib/loopback.ts";
import { saidHost } from "../../lib/said-host.ts";
import { sameRoute } from "../../lib/route-name.ts";
import { isoTime } from "../../lib/time.ts";
import { VERSION } from "../../model/version.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Route } from "../../ports/plugin.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { RelayMetrics } from "../observability/index.ts";
import { servedRoutes } from "./gateway.ts";
import { metricsRoutes } from "./metrics.ts";
import { wrapped } from "./observers.ts";
import type { OpenPorts, SetupContext } from "./open-ports.ts";
import type { DeliveryPath } from "./path.ts";
import type { ReadParts } from "./readiness.ts";

interface ServedParts {
  readonly ports: OpenPorts;
  readonly path: DeliveryPath;
  readonly gateway: readonly Route[];
  readonly metrics: Pick<RelayMetrics, "text">;
  readonly state: Lifecycle["state"];
  readonly readiness: ReadParts;
  readonly pages: SetupContext["pages"];
}

/**
 * Returns the operations, all other routes, and the auth, which takes the portal's links too where there is a portal.
 * @throws StartError 78 when two serve the same route
 */
export function composeServed(parts: ServedParts) {
  const { auth, portal } = composePortal(parts);
  const operations = composeOperations(parts, auth, portal);
  return { auth, operations, routes: composeRoutes(parts, auth, operations) };
}

function composeOperations(
  { ports, path, state, readiness }: ServedParts,
  auth: Auth,
  portal: PortalOffer | undefined,
) {
  const { transports, cluster, statsQuery } = path;
  return createOperations({
    ...path,
    auth,
    publish: (request, also) =>
      wrapped(
        ports.observers,
        (one) => one.wrapAccept,
        (given) => path.publisher.accept(given, also),
      )(request),
    eraseEvent: path.eventErasure.erase,
    eraseKey: path.keyErasure.erase,
    schemes: [...new Set(transports.flatMap((transport) => transport.schemes))],
    events: () => path.catalogue.events,
    types: () => path.catalogue.types,
    transforms: () => path.transforms?.names() ?? [],
    pausedMs: (id) => path.gates.leftMs(id, "retry_after"),
    // A message to the other nodes for each that is paused, and not for every recipient of a wide event.
    async probe(ids) {
      for (const id of await path.circuitBreaker.open(ids)) await cluster.announce("probe", id);
    },
    rekey: (actor) => ports.rekey.run(actor),
    ping: path.testEvent.send,
    preview: path.testEvent.preview,
    feed: path.liveFeed,
    portal,
    figures: {
      stats: statsQuery.ofKey,
      sums: statsQuery.sumsOf,
      status: async () => relayStatus(path, state(), await readiness(), ports.sources),
      parts: readiness,
      relay: (range) => statsQuery.ofRelay(range),
    },
  });
}

/** Without a portal, the auth is the plug-in's as it is, so no link opens anything. */
function composePortal({ ports, path }: ServedParts): { readonly auth: Auth; readonly portal?: PortalOffer } {
  const { plan, clock, keys, storage } = path;
  const { auth } = ports;
  if (plan.portal === false) return { auth };
  const links = new PortalLinks({ clock, keys, storage, auth });
  const { url } = plan.portal;
  return {
    auth: withPortal(auth, links),
    portal: { links, pageUrl: (call) => `${url === undefined ? ownOrigin(call) : `${url}/`}portal` },
  };
}

/**
 * Returns where the request was sent to, ending with a slash, when that is this machine or the address of the connection
 * itself: a client may send any other `Host`, and nothing must lead there. Otherwise the link is relative.
 */
function ownOrigin({ req: { headers, socket } }: Call): string {
  const host = saidHost(headers.host);
  const { localAddress = "", localPort, encrypted } = socket as Partial<TLSSocket>;
  const scheme = encrypted === true ? "https" : "http";
  const address = localAddress.replace(/^::ffff:/i, "");
  const own = new URL(`${scheme}://${address.includes(":") ? `[${address}]` : address || "none"}:${localPort ?? 0}`)
    .host;
  const known = host !== undefined && (isLoopbackHost(host.replace(/:\d+$/, "")) || host === own);
  return known ? `${scheme}://${host}/` : "";
}

/** Returns what `/relay/status` and `relay status` show: this node, its parts, the storage and the backlog. */
async function relayStatus(
  { plan, storage, dispatcher }: DeliveryPath,
  state: ReturnType<Lifecycle["state"]>,
  parts: Awaited<ReturnType<ReadParts>>,
  sources: OpenPorts["sources"],
): Promise<Readonly<Record<string, unknown>>> {
  const [usage, depth] = await Promise.all([storage.status(), storage.queue.depth()]);
  const { waiting, leased, oldestDueAt } = depth;
  const figures = sources.flatMap((source) => source.figures?.() ?? []);
  return {
    node: {
      state,
      version: VERSION,
      node: process.version,
      host: hostname(),
      pid: process.pid,
      uptimeMs: Math.round(process.uptime() * 1_000),
      rssBytes: process.memoryUsage.rss(),
    },
    parts,
    storage: { name: plan.storage.name, durability: storage.durability, ...usage },
    backlog: {
      waiting,
      leased,
      underWay: dispatcher.underWay(),
      oldestDueAt: oldestDueAt === undefined ? undefined : isoTime(oldestDueAt),
    },
    ...(figures.length > 0 && { sources: figures }),
  };
}

function composeRoutes(parts: ServedParts, auth: Auth, operations: readonly AnyOperation[]): readonly Route[] {
  const { ports, path, gateway, metrics, readiness, pages } = parts;
  const { sources } = ports;
  const { plan, clock } = path;
  const repeated = plan.signature.headers;
  const own = [...healthRoutes({ clock, readiness }), ...webhookKeyRoutes(path.webhookKeys ?? [])];
  const fromPlugins = [...(auth.routes ?? []), ...sources.flatMap((source) => source.routes ?? [])];
  const page = pages?.(plan, auth.firstRun) ?? [];
  const documented = openApiRoutes({
    operations,
    routes: [...own, ...fromPlugins, ...servedRoutes(gateway, plan)],
    undescribable({ method, path: at }, error) {
      const owners = [
        { plugin: plan.auth, routes: auth.routes ?? [] },
        ...sources.map((source, i) => ({ plugin: plan.sources[i], routes: source.routes ?? [] })),
      ];
      const { plugin } =
        owners.find(({ routes }) => routes.some((one) => one.method === method && one.path === at)) ?? {};
      if (plugin === undefined) throw error;
      ports.incidents.note(plugin, `describe ${method} ${at}`, error);
    },
    types: () => path.catalogue.types,
    version: VERSION,
    repeated,
  });
  const relays = [
    ...own,
    ...documented,
    // A plug-in may have the bare address for itself.
    ...page.filter((route) => !fromPlugins.some(({ path: taken }) => taken === route.path)),
    ...metricsRoutes(metrics, plan.metrics),
    ...gateway,
  ];
  refuseSame([
    { name: "relay", routes: [...relays, ...operations] },
    { name: plan.auth.name, routes: auth.routes },
    ...sources.map((source, i) => ({ name: plan.sources[i]?.name ?? "", routes: source.routes })),
  ]);
  return [...fromPlugins, ...relays];
}

interface Server {
  /** The plug-in's. */
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
