/** The HTTP application: h3 finds the endpoint of a request and runs the stations in front of it; one place answers. */
import { H3, type H3Event } from "h3";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ordinals } from "../../model/ids.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { createBodyBudgets } from "./body-budget.ts";
import { Call, checkHead, type Exchange, exchangeOf, giveBack } from "./call.ts";
import { createAddressOf } from "./client-address.ts";
import type { AnyOperation } from "./operation.ts";
import { createNoRoute, patternOf } from "./paths.ts";
import { createRefusals } from "./refusals.ts";
import { drained, headOf } from "./reply.ts";
import { type Endpoint, type ExchangeDeps, runOperation, stationsBefore } from "./stations.ts";

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
  const refusals = createRefusals(deps);

  const app = new H3({
    silent: true,
    onRequest(event) {
      const { call } = exchangeOf(event);
      const { path } = call;
      // h3 looks past a slash at the end: a segment that no parameter takes stands behind it then.
      event.url = { pathname: path.length > 1 && path.endsWith("/") ? `${path}%00` : path } as URL;
      checkHead(call);
    },
    async onError({ cause }, event) {
      const exchange = exchangeOf(event);
      return respond(exchange, await refusals.answer(cause, exchange));
    },
    onResponse(_response, event) {
      const exchange = exchangeOf(event);
      const { call } = exchange;
      // Node has refused the headers of a problem that a plug-in threw.
      if (!call.res.headersSent) call.res.writeHead(500).end();
      call.release();
      refusals.report(exchange);
    },
  });

  const taken = new Set<string>();
  for (const endpoint of endpoints) {
    const { method, path } = endpoint;
    const pattern = patternOf(path);
    if (taken.has(`${method} ${pattern}`)) throw new Error(`two routes are ${method} ${path}`);
    taken.add(`${method} ${pattern}`);
    const handle = async (event: H3Event): Promise<string> => {
      const exchange = exchangeOf(event);
      const { operation, route } = endpoint;
      const reply = operation
        ? await runOperation(operation, exchange, deps)
        : await route.handle(exchange.call, exchange.caller);
      if (reply !== undefined && reply.status >= 500) await giveBack(exchange);
      return respond(exchange, reply);
    };
    const options = { middleware: [stationsBefore(endpoint, deps, noRoute)] };
    app.on(method as Route["method"], pattern, handle, options);
    if (method === "GET") app.on("HEAD", pattern, handle, options);
  }
  app.all("/**", (event) => {
    throw noRoute(exchangeOf(event).call.path);
  });

  return (req, res) => {
    const call = new Call(req, res, `req_${requestOrdinal()}`, addressOf, budgets);
    const exchange: Exchange = { call, startedAt: deps.clock.monotonic(), where: "none" };
    // h3 gets no target and Host: they may make no URL, and in one the path would be spelled otherwise.
    void app.fetch({ method: call.method, _url: NO_URL, context: { exchange } } as unknown as Request);
  };
}

/** For h3, which makes a response of it that is not sent. */
const WRITTEN = "";

/**
 * Writes an answer onto Node's response: h3 would spell the names of its head in lower case.
 * @param reply undefined when the whole answer is written already
 */
function respond(exchange: Exchange, reply: RouteReply | undefined): string {
  const { call, limitHeaders } = exchange;
  const { req, res } = call;
  exchange.status = reply?.status;
  if (reply === undefined || res.headersSent || res.destroyed) {
    // The gateway has passed on the answer of its upstream, or the client is gone.
    res.end();
    return WRITTEN;
  }
  const { lines, closing } = headOf(call.requestId, reply, limitHeaders);
  if (closing) res.shouldKeepAlive = false;
  res.writeHead(reply.status, lines);
  if (closing && !req.complete) {
    if (reply.body !== undefined) res.write(reply.body);
    void drained(call).then(() => res.end());
  } else res.end(reply.body);
  return WRITTEN;
}
