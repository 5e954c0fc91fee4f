/** The HTTP application: h3 routes requests to their endpoints, and makes responses of their answers and errors. */
import { H3, HTTPResponse, type H3Event } from "h3";
import { toNodeHandler } from "h3/node";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ordinals } from "../../model/ids.ts";
import { Problem } from "../../model/problem.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { createBodyBudgets } from "./body-budget.ts";
import { Call } from "./call.ts";
import { createAddressOf } from "./client-address.ts";
import { checkHead } from "./head.ts";
import type { AnyOperation } from "./operation.ts";
import { createPaths, pathReader, REST, type Params } from "./paths.ts";
import { createPipeline, type Endpoint, type ServedRequest, type PipelineDeps } from "./pipeline.ts";
import { drained, headOf, lateBody, send } from "./reply.ts";

export interface AppDeps extends PipelineDeps {
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

/** @throws Error when two endpoints have the same method and path */
export function createApp(deps: AppDeps): NodeHandler {
  const addressOf = createAddressOf(deps.trustedProxies);
  const requestOrdinal = ordinals(deps.clock.now);
  const budgets = createBodyBudgets(deps.maxBodyBytes ?? MAX_BODY_BYTES);
  const pipeline = createPipeline(deps);
  const endpoints: readonly Endpoint[] = [
    ...deps.operations.map((operation) => ({ method: operation.method, path: operation.path, operation })),
    ...deps.routes.map((route) => ({ method: route.method, path: route.path, route })),
  ];
  const paths = createPaths(endpoints);
  const exchanges = new WeakMap<H3Event, ServedRequest>();
  const exchangeOf = (event: H3Event): ServedRequest => exchanges.get(event) as ServedRequest;

  const begin = (req: IncomingMessage, res: ServerResponse): ServedRequest =>
    pipeline.begin(new Call(req, res, `req_${requestOrdinal()}`, addressOf, budgets));

  const app = new H3({
    // Such a path is of no route, or it is text that a parameter or the gateway refuses.
    allowMalformedURL: true,
    silent: true,
    onRequest(event) {
      const node = event.runtime?.node as { readonly req: IncomingMessage; readonly res: ServerResponse };
      const exchange = begin(node.req, node.res);
      exchanges.set(event, exchange);
      checkHead(exchange.call);
    },
    async onError({ cause }, event) {
      const exchange = exchangeOf(event);
      return await respond(exchange, await pipeline.refuse(cause, exchange));
    },
    onResponse(_response, event) {
      const exchange = exchangeOf(event);
      exchange.call.release();
      pipeline.report(exchange);
    },
  });

  for (const endpoint of endpoints) {
    const read = pathReader(endpoint.path);
    const handle = async (event: H3Event): Promise<HTTPResponse> => {
      const exchange = exchangeOf(event);
      const params = read(exchange.call.path);
      return params === undefined ? await elsewhere(event) : await run({ endpoint, params }, exchange);
    };
    const pattern = patternOf(endpoint.path);
    app.on(endpoint.method as Route["method"], pattern, handle);
    if (endpoint.method === "GET") app.on("HEAD", pattern, handle);
  }
  app.all("/**", elsewhere);

  /** Answers what h3 finds no route for, or a route whose path is spelled otherwise. */
  async function elsewhere(event: H3Event): Promise<HTTPResponse> {
    const exchange = exchangeOf(event);
    const found = paths.find(exchange.call.path, exchange.call.method);
    if (found === undefined) throw new Problem("NOT_FOUND", "There is no such path.");
    if (found.endpoint !== undefined) return await run(found, exchange);
    const allow = found.methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
    throw new Problem("METHOD_NOT_ALLOWED", `Use ${allow}.`, { headers: { Allow: allow } });
  }

  async function run({ endpoint, params }: Found, exchange: ServedRequest): Promise<HTTPResponse> {
    exchange.call.params = params;
    return await respond(exchange, await pipeline.run(endpoint, exchange));
  }

  /** Writes the head of an answer, and hands h3 its body. */
  async function respond(exchange: ServedRequest, reply: RouteReply | undefined): Promise<HTTPResponse> {
    // The endpoint has written the whole answer onto Node's response, or the client is gone.
    if (reply === undefined) return new HTTPResponse(null);
    const { call, limitHeaders } = exchange;
    const { req, res } = call;
    exchange.status = reply.status;
    if (res.headersSent || res.destroyed) return new HTTPResponse(null);
    const { lines, closing } = headOf(call.requestId, reply, limitHeaders);
    if (closing) res.shouldKeepAlive = false;
    const late = closing && !req.complete;
    // To HEAD goes no body that could end late.
    if (late && call.method === "HEAD") await drained(call);
    // h3's own head has its names in lower case and sorted; the interface spells `X-RateLimit-Limit`.
    res.writeHead(reply.status, lines);
    return new HTTPResponse(late ? lateBody(call, reply.body) : ((reply.body ?? null) as string), {
      status: reply.status,
    });
  }

  /**
   * Answers without h3, to save its routing and its response objects on the busiest path.
   * @param endpoint undefined for a request that h3 cannot read
   */
  async function answerDirectly(endpoint: Endpoint | undefined, exchange: ServedRequest): Promise<void> {
    const { call } = exchange;
    try {
      checkHead(call);
      if (endpoint === undefined) throw new Problem("VALIDATION_FAILED", "Send a valid Host header.");
      sendDirectly(exchange, await pipeline.run(endpoint, exchange));
    } catch (error) {
      sendDirectly(exchange, await pipeline.refuse(error, exchange));
    }
    call.release();
    pipeline.report(exchange);
  }

  function sendDirectly(exchange: ServedRequest, reply: RouteReply | undefined): void {
    if (reply === undefined) return;
    exchange.status = reply.status;
    send(exchange.call, reply, exchange.limitHeaders);
  }

  const direct = new Map(endpoints.filter(({ route }) => route?.direct).map((one) => [one.path, one]));
  const handle = toNodeHandler(app);
  return (req, res) => {
    const endpoint = direct.get(req.url ?? "");
    if (endpoint?.method === req.method) return void answerDirectly(endpoint, begin(req, res));
    try {
      void handle(req, res);
    } catch {
      // h3 throws where target and Host make no URL.
      void answerDirectly(undefined, begin(req, res));
    }
  };
}

interface Found {
  readonly endpoint: Endpoint;
  readonly params: Params;
}

/** A path in h3's spelling: parameters by number, since theirs may be no names there. */
const patternOf = (path: string): string =>
  path
    .split("/")
    .map((segment, i) => {
      if (segment === REST.slice(1)) return "**";
      return segment.startsWith("{") ? `:p${i}` : segment.replaceAll(/[\\:*(){}?+]/g, String.raw`\$&`);
    })
    .join("/");
