/** The HTTP application: h3 finds the endpoint of a request and runs the stations in front of it; one place answers. */
import { H3, type H3Event } from "h3";
import { toNodeHandler } from "h3/node";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ordinals } from "../../model/ids.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { createBodyBudgets } from "./body-budget.ts";
import { Call } from "./call.ts";
import { createAddressOf } from "./client-address.ts";
import { type Endpoint, Exchange, type ExchangeDeps, exchangeOf } from "./exchange.ts";
import { checkHead } from "./head.ts";
import type { AnyOperation } from "./operation.ts";
import { createNoRoute, patternOf } from "./paths.ts";
import { createRefusals } from "./refusals.ts";
import { drained, headOf, lateBody } from "./reply.ts";
import { createStations } from "./stations.ts";

export interface AppDeps extends ExchangeDeps {
  /** Addresses and CIDRs of proxies. Their `X-Forwarded-For` is taken as true. */
  readonly trustedProxies: readonly string[];
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins, pages and probes. */
  readonly routes: readonly Route[];
  /** Most bytes that the bodies of publish requests hold at once. @default 67_108_864 */
  readonly maxBodyBytes?: number;
}

type NodeHandler = (req: IncomingMessage, res: ServerResponse) => void;

const MAX_BODY_BYTES = 67_108_864;
const NO_URL = new URL("http://relay/");

/** @throws Error when two endpoints have the same method and path */
export function createApp(deps: AppDeps): NodeHandler {
  const addressOf = createAddressOf(deps.trustedProxies);
  const requestOrdinal = ordinals(deps.clock.now);
  const budgets = createBodyBudgets(deps.maxBodyBytes ?? MAX_BODY_BYTES);
  const endpoints: readonly Endpoint[] = [
    ...deps.operations.map((operation) => ({ method: operation.method, path: operation.path, operation })),
    ...deps.routes.map((route) => ({ method: route.method, path: route.path, route })),
  ];
  const noRoute = createNoRoute(endpoints);
  const stations = createStations(deps, noRoute);
  const refusals = createRefusals(deps);

  const app = new H3({
    silent: true,
    onRequest(event) {
      const node = event.runtime?.node as { readonly req: IncomingMessage; readonly res: ServerResponse };
      const call = new Call(node.req, node.res, `req_${requestOrdinal()}`, addressOf, budgets);
      event.context["exchange"] = new Exchange(call, deps.clock.monotonic());
      const { path } = call;
      // h3 looks past a slash at the end: a segment that no parameter takes stands behind it then.
      event.url = { pathname: path.length > 1 && path.endsWith("/") ? `${path}%00` : path } as URL;
      checkHead(call);
    },
    async onError({ cause }, event) {
      const exchange = exchangeOf(event);
      return await respond(exchange, await refusals.answer(cause, exchange));
    },
    onResponse(_response, event) {
      const exchange = exchangeOf(event);
      exchange.call.release();
      refusals.report(exchange);
    },
  });

  const taken = new Set<string>();
  for (const endpoint of endpoints) {
    const { method, path } = endpoint;
    const pattern = patternOf(path);
    if (taken.has(`${method} ${pattern}`)) throw new Error(`two routes are ${method} ${path}`);
    taken.add(`${method} ${pattern}`);
    const handle = async (event: H3Event): Promise<Body> => {
      const exchange = exchangeOf(event);
      const reply = await stations.handle(endpoint, exchange);
      if (reply !== undefined && reply.status >= 500) await exchange.giveBack();
      return await respond(exchange, reply);
    };
    const options = { middleware: [stations.before(endpoint)] };
    app.on(method as Route["method"], pattern, handle, options);
    if (method === "GET") app.on("HEAD", pattern, handle, options);
  }
  app.all("/**", (event) => {
    throw noRoute(exchangeOf(event).call.path);
  });

  // h3 makes no URL of target and Host: they may make none, and in a URL the path would be spelled otherwise.
  const { fetch } = app;
  app.fetch = (request) => {
    request._url = NO_URL;
    return fetch(request);
  };
  return toNodeHandler(app) as NodeHandler;
}

type Body = NonNullable<RouteReply["body"]> | ReadableStream;

/**
 * Writes the head of an answer, and hands h3 its body alone: of a response h3 would make two sets of headers.
 * @param reply undefined when the whole answer is written already
 */
async function respond(exchange: Exchange, reply: RouteReply | undefined): Promise<Body> {
  if (reply === undefined) return "";
  const { call, limitHeaders } = exchange;
  const { req, res } = call;
  exchange.status = reply.status;
  // The gateway has passed on the answer of its upstream, or the client is gone.
  if (res.headersSent || res.destroyed) return "";
  const { lines, closing } = headOf(call.requestId, reply, limitHeaders);
  if (closing) res.shouldKeepAlive = false;
  const late = closing && !req.complete;
  // To HEAD goes no body that could end late.
  if (late && call.method === "HEAD") await drained(call);
  // h3's own head has its names in lower case and sorted; the interface spells `X-RateLimit-Limit`.
  res.writeHead(reply.status, lines);
  return late ? lateBody(call, reply.body) : (reply.body ?? "");
}
