/** The HTTP application: h3 finds the endpoint of a request and runs the stations in front of it; one place answers, another refuses. */
import { H3, type H3Event } from "h3";
import type { IncomingMessage, ServerResponse } from "node:http";
import { addressGroup } from "../../lib/address.ts";
import { createLineBound } from "../../lib/line-bound.ts";
import type { LimitRefusalCode } from "../../limits/limiter.ts";
import { ordinals } from "../../model/ids.ts";
import type { Problem } from "../../model/problem.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { createBodyBudgets, Gone } from "./body.ts";
import { Call, checkHead, type Exchange, exchangeOf, giveBack } from "./call.ts";
import { createAddressOf } from "./client-address.ts";
import type { AnyOperation } from "./operation.ts";
import { createNoRoute, patternOf } from "./paths.ts";
import { drained, headOf, overLimit, problemOf, problemReply } from "./reply.ts";
import { type Endpoint, type ExchangeDeps, owns, runOperation, stationsBefore } from "./stations.ts";

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
      // h3 looks past a slash at the end: so a segment follows it that no parameter takes.
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

/** Makes problem details of whatever ends a request, and reports each request that is answered. */
function createRefusals(deps: ExchangeDeps) {
  const { clock, log, metrics, limits } = deps;
  const mayLogRefusal = createLineBound(clock, (count) =>
    log.warn("more requests were refused than are logged", { count }),
  );
  const mayLogFault = createLineBound(clock, (count) => log.error("more requests failed than are logged", { count }));

  /** Counts a failed authentication, which too many of become a refusal. */
  async function problemFor(error: unknown, { call }: Exchange): Promise<Problem> {
    const problem = problemOf(error);
    if (problem.code !== "UNAUTHENTICATED") return problem;
    try {
      const verdict = await limits.unauthenticated(addressGroup(call.address));
      return verdict.code ? overLimit(verdict) : problem;
    } catch (failure) {
      return problemOf(failure);
    }
  }

  async function refusal(error: unknown, exchange: Exchange): Promise<RouteReply> {
    const { call, principal } = exchange;
    const problem = await problemFor(error, exchange);
    const { code, status } = problem;
    exchange.code = code;
    exchange.refusal = problem.extras.refusal === true;
    if (status >= 500 && code !== "SHUTTING_DOWN" && !exchange.refusal) {
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      exchange.logged = mayLogFault(`${name} ${message}`);
      const fields = { requestId: call.requestId, error: name, detail: message };
      if (exchange.logged) log.error("a request failed", fields);
    }
    if (status === 429) {
      const { keyId = "" } = call.params;
      deps.refused?.(code as LimitRefusalCode, principal && owns(principal, keyId) ? keyId : undefined);
    }
    if (status >= 500 || code === "PROVIDER_BACKPRESSURE") await giveBack(exchange);
    return problemReply(problem, call.requestId);
  }

  return {
    /** Returns the answer to an error; `undefined` when the client is gone. Never rejects. */
    async answer(error: unknown, exchange: Exchange): Promise<RouteReply | undefined> {
      if (error instanceof Gone) return undefined;
      try {
        return await refusal(error, exchange);
      } catch (failure) {
        const { requestId } = exchange.call;
        log.error("an answer failed", { requestId, error: (failure as Error).name });
        return problemReply(problemOf(failure), requestId);
      }
    },

    /** Counts, times and logs an answer. */
    report({ call, startedAt, where, principal, verdict, code, refusal: refused, logged, status }: Exchange): void {
      if (status === undefined) return;
      const durationMs = clock.monotonic() - startedAt;
      metrics.count("http_requests", { route: where, status: String(status) });
      metrics.observe("request_seconds", durationMs / 1_000);
      const fault = status >= 500 && !refused;
      const known = fault || (principal !== undefined && verdict?.code === undefined);
      // A publish that is stored has its log line already.
      if (!known && code === undefined) return;
      const mayLog = fault
        ? (logged ?? mayLogFault(`${where} ${status}`))
        : known || mayLogRefusal(addressGroup(call.address));
      if (!mayLog) return;
      const fields = {
        requestId: call.requestId,
        method: call.method,
        route: where,
        status,
        code,
        durationMs: Math.round(durationMs * 10) / 10,
      };
      const address = code === undefined ? {} : { address: call.address };
      log.info(known ? "request" : "request refused", { ...fields, ...address });
    },
  };
}
