/** The HTTP application: finds the endpoint of a request, checks limits, runs it, answers and logs. h3 stands in front. */
import { H3 } from "h3";
import { toNodeHandler } from "h3/node";
import type { IncomingMessage, ServerResponse } from "node:http";
import { addressGroup } from "../../model/address.ts";
import type { Limiter, LimitRefusalCode, LimitVerdict } from "../../limits/limiter.ts";
import { ordinals } from "../../model/ids.ts";
import { Problem, type ProblemCode } from "../../model/problem.ts";
import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { Auth, Principal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { Identified, Route, RouteReply } from "../../ports/route.ts";
import { createAddressOf } from "./client-address.ts";
import { createBodyBudgets } from "./body-budget.ts";
import { Gone } from "./body.ts";
import { Call, countHeader } from "./call.ts";
import { authenticated, owns, readAsk } from "./checks.ts";
import type { CheckDeps } from "./checks.ts";
import type { AnyOperation } from "./operation.ts";
import { createRefusalLog } from "./refusal-log.ts";
import { envelope, problemOf, problemReply, send } from "./reply.ts";
import { createTable } from "./route-table.ts";

export interface AppDeps extends Pick<CheckDeps, "stepUp"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly auth: Auth;
  readonly limits: Pick<Limiter, "check" | "unauthenticated">;
  /** Addresses and CIDRs of proxies. Their `X-Forwarded-For` is taken as true. */
  readonly trustedProxies: readonly string[];
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins, pages and probes. */
  readonly routes: readonly Route[];
  /** Most bytes that the bodies of publish requests hold at once. @default 67_108_864 */
  readonly maxBodyBytes?: number;
  /** Puts a refusal on the audit trail. @default it is not recorded */
  readonly trail?: CheckDeps["refused"];
  /** Called for each 429, with the key of the path where the caller owns it. */
  readonly refused?: (code: LimitRefusalCode, keyId: string | undefined) => void;
}

export type NodeHandler = (req: IncomingMessage, res: ServerResponse) => void;

/** An entry of the route table: an operation of the management API, or a route of a plug-in. */
type Endpoint =
  | { readonly method: string; readonly path: string; readonly operation: AnyOperation; readonly route?: undefined }
  | { readonly method: string; readonly path: string; readonly operation?: undefined; readonly route: Route };

/**
 * The answer that h3 gets: a promise that stays pending, because we answer on Node's own response. A settled one makes h3
 * build a response of its own, which costs 5 % of an event's work. And h3's answers go through `Headers`, which writes every
 * name in lower case: the interface spells `X-RateLimit-Limit`.
 */
const ours = (): Promise<never> => new Promise(() => {});

export function createApp(deps: AppDeps): NodeHandler {
  const { clock, log, metrics, auth, limits } = deps;
  const addressOf = createAddressOf(deps.trustedProxies);
  const checks: CheckDeps = { ...deps, refused: deps.trail ?? (() => Promise.resolve()) };
  const requestOrdinal = ordinals(clock.now);
  const logRefusal = createRefusalLog(deps);
  const budgets = createBodyBudgets(deps.maxBodyBytes ?? MAX_BODY_BYTES);
  const table = createTable<Endpoint>([
    ...deps.operations.map((operation) => ({ method: operation.method, path: operation.path, operation })),
    ...deps.routes.map((route) => ({ method: route.method, path: route.path, route })),
  ]);

  async function answer(call: Call): Promise<void> {
    const startedAt = clock.monotonic();
    let counted: Counted = NOT_COUNTED;
    let where = "none";
    let reply: RouteReply;
    let limitHeaders: Readonly<Record<string, string>> | undefined;
    let code: ProblemCode | undefined;
    try {
      const endpoint = route(call);
      where = endpoint.path;
      const soon = endpoint.route ? countRoute(endpoint.route, call) : countOperation(endpoint.operation, call);
      counted = soon instanceof Promise ? await soon : soon;
      limitHeaders = counted.verdict?.headers;
      if (endpoint.route) reply = await endpoint.route.handle(call, counted.caller);
      else {
        const principal = counted.principal as Principal;
        const ask = await readAsk(endpoint.operation, call, principal, checks);
        const answered = await endpoint.operation.handle(ask);
        if ("stream" in answered)
          return await answered.stream(call, { ...limitHeaders, "X-Request-Id": call.requestId });
        reply = envelope({ status: endpoint.operation.reply.status, ...answered }, clock.now());
      }
    } catch (error) {
      if (error instanceof Gone) return;
      const problem = await judged(error, call);
      limitHeaders = counted.verdict?.headers ?? (error instanceof Refused ? error.verdict.headers : undefined);
      code = problem.code;
      reply = problemReply(problem, call.requestId);
      if (problem.status === 429)
        tellRefused(problem, call, error instanceof Refused ? error.principal : counted.principal);
      if (problem.code === "PROVIDER_BACKPRESSURE") limitHeaders = await counted.verdict?.giveBack();
    }
    if (reply.status >= 500 && counted.verdict) limitHeaders = await counted.verdict.giveBack();
    send(call, reply, limitHeaders);
    const durationMs = clock.monotonic() - startedAt;
    metrics.count("http_requests", { route: where, status: String(reply.status) });
    metrics.observe("request_seconds", durationMs / 1_000);
    const known = counted.principal !== undefined || reply.status >= 500;
    // A publish that is stored has its log line already.
    if (!known && code === undefined) return;
    const fields = {
      requestId: call.requestId,
      method: call.method,
      route: where,
      status: reply.status,
      code,
      durationMs: Math.round(durationMs * 10) / 10,
    };
    if (known) log.info("request", code === undefined ? fields : { ...fields, address: call.address });
    else logRefusal(call.address, fields);
  }

  /** Checks head, path and method, in this order. */
  function route(call: Call): Endpoint {
    const { req } = call;
    if (countHeader(req, "host") > 1) throw new Problem("VALIDATION_FAILED", "Send one Host header.", CLOSE);
    const coding = req.headers["transfer-encoding"];
    if (coding !== undefined && coding.toLowerCase() !== "chunked")
      throw new Problem("VALIDATION_FAILED", "Send Transfer-Encoding: chunked, or none.", CLOSE);
    const found = table.find(call.path, call.method);
    if (found === undefined) throw new Problem("NOT_FOUND", "There is no such path.");
    if (found.endpoint === undefined) {
      const allow = found.methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]));
      throw new Problem("METHOD_NOT_ALLOWED", `Use ${allow.join(", ")}.`, { headers: { Allow: allow.join(", ") } });
    }
    call.params = found.params;
    return found.endpoint;
  }

  async function countOperation({ method, path, limit }: AnyOperation, call: Call): Promise<Counted> {
    const principal = await authenticated(auth, call);
    if (limit === false) return { principal };
    const verdict = await limits.check(limit ?? `${method} ${path}`, principal.sub);
    if (verdict?.code) throw new Refused(verdict, principal);
    return { principal, verdict };
  }

  function countRoute(route: Route, call: Call): MaybePromise<Counted> {
    const { limit } = route;
    if (route.identify === undefined)
      return limit === undefined ? NOT_COUNTED : countCaller(limit, addressGroup(call.address), undefined);
    const found = route.identify(call);
    return found instanceof Promise ? found.then((who) => countIdentified(limit, who)) : countIdentified(limit, found);
  }

  const countIdentified = (limit: string | undefined, { counted, caller }: Identified): MaybePromise<Counted> =>
    limit === undefined ? { caller } : countCaller(limit, counted, caller);

  function countCaller(limit: string, counted: Identified["counted"], caller: unknown): MaybePromise<Counted> {
    const verdict = limits.check(limit, counted);
    return verdict instanceof Promise ? verdict.then((one) => passed(one, caller)) : passed(verdict, caller);
  }

  function passed(verdict: LimitVerdict | undefined, caller: unknown): Counted {
    if (verdict?.code) throw new Refused(verdict);
    return { verdict, caller };
  }

  /** Finds the problem that the client gets for an error, counts a failed authentication, and logs a fault of ours. */
  async function judged(error: unknown, call: Call): Promise<Problem> {
    let problem = problemOf(error);
    try {
      if (problem.code === "UNAUTHENTICATED") {
        const verdict = await limits.unauthenticated(addressGroup(call.address));
        if (verdict.code) problem = new Refused(verdict);
      }
    } catch (failure) {
      problem = problemOf(failure);
    }
    if (problem.status >= 500 && problem.code !== "SHUTTING_DOWN") {
      const fault = error instanceof Error ? error : new Error(String(error));
      log.error("a request failed", { requestId: call.requestId, error: fault.name, detail: fault.message });
    }
    return problem;
  }

  function tellRefused({ code }: Problem, { params }: Call, principal: Principal | undefined): void {
    const { keyId } = params;
    const owned = keyId !== undefined && principal !== undefined && owns(principal, keyId);
    deps.refused?.(code as LimitRefusalCode, owned ? keyId : undefined);
  }

  /** Answers in any case. An error here comes from answering an error. */
  function serve(call: Call): void {
    answer(call).then(
      () => call.release(),
      (error: unknown) => {
        call.release();
        log.error("an answer failed", { requestId: call.requestId, error: (error as Error).name });
        send(call, problemReply(problemOf(error), call.requestId));
      },
    );
  }

  const callOf = (req: IncomingMessage, res: ServerResponse): Call =>
    new Call(req, res, `req_${requestOrdinal()}`, addressOf, budgets);
  const app = new H3({ allowMalformedURL: true, silent: true }).use((event) => {
    const node = event.runtime?.node as { readonly req: IncomingMessage; readonly res: ServerResponse };
    serve(callOf(node.req, node.res));
    return ours();
  });
  const handle = toNodeHandler(app);

  return (req, res) => {
    try {
      void handle(req, res);
    } catch {
      // h3 throws where target and Host make no URL.
      serve(callOf(req, res));
    }
  };
}

const MAX_BODY_BYTES = 67_108_864;
const CLOSE = { headers: { Connection: "close" } } as const;

interface Counted {
  /** Who asks for an operation. */
  readonly principal?: Principal;
  /** Who asks for a route: what its `identify` found. */
  readonly caller?: unknown;
  readonly verdict?: LimitVerdict | undefined;
}
const NOT_COUNTED: Counted = {};

/** A refusal by the limiter. Its headers go with the answer. */
class Refused extends Problem {
  readonly verdict: LimitVerdict;
  readonly principal: Principal | undefined;
  constructor(verdict: LimitVerdict, principal?: Principal) {
    super(verdict.code ?? "RATE_LIMIT_EXCEEDED", "Wait as long as Retry-After says, then go on slower.", {
      retryAfter: verdict.retryAfter,
    });
    this.verdict = verdict;
    this.principal = principal;
  }
}
