/** Takes one request through its stations: limits, checks, its endpoint, the answer or the problem, metrics and log. */
import { addressGroup } from "../../model/address.ts";
import type { Problem, ProblemCode } from "../../model/problem.ts";
import type { Limiter, LimitRefusalCode, LimitVerdict } from "../../limits/limiter.ts";
import type { Auth, Principal } from "../../ports/auth.ts";
import type { Access } from "../../model/token.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { Identified, Route, RouteReply } from "../../ports/route.ts";
import { checkAccess, checkPortal } from "./access.ts";
import { Gone } from "./body.ts";
import type { Call } from "./call.ts";
import { authenticated, type CheckDeps, owns, readAsk } from "./checks.ts";
import { createLineBound } from "./line-bound.ts";
import type { AnyOperation } from "./operation.ts";
import { Refused } from "./refused.ts";
import { envelope, problemOf, problemReply } from "./reply.ts";

export interface PipelineDeps extends Pick<CheckDeps, "stepUp"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly auth: Auth;
  readonly limits: Pick<Limiter, "check" | "unauthenticated">;
  /** Puts a refusal on the audit trail. @default it is not recorded */
  readonly trail?: CheckDeps["refused"];
  /** Called for each 429, with the key of the path where the caller owns it. */
  readonly refused?: (code: LimitRefusalCode, keyId: string | undefined) => void;
}

/** What a request may reach: an operation of the management API, or a route of a plug-in. */
export type Endpoint =
  | { readonly method: string; readonly path: string; readonly operation: AnyOperation; readonly route?: undefined }
  | { readonly method: string; readonly path: string; readonly operation?: undefined; readonly route: Route };

/** A request on its way, and what is known of it so far. */
export interface ServedRequest {
  readonly call: Call;
  /** On the clock that never steps, ms. */
  readonly startedAt: number;
  /** The path of its endpoint, for metrics. */
  where: string;
  counted: Counted;
  limitHeaders: Readonly<Record<string, string>> | undefined;
  /** The problem that it is answered with. */
  code: ProblemCode | undefined;
  /** Whether that problem is logged as a refusal, whatever its status. */
  refusal: boolean;
  /** Whether the lines of its fault may be written; undefined while it has none. */
  told: boolean | undefined;
  /** The status that it is answered with; undefined where its endpoint streams, or where the client is gone. */
  status: number | undefined;
}

interface Counted {
  /** Who asks for an operation. */
  readonly principal?: Principal;
  /** Who asks for a route: what its `identify` found. */
  readonly caller?: unknown;
  /** What a route's caller may do. */
  readonly access?: Access | undefined;
  readonly verdict?: LimitVerdict | undefined;
}
const NOT_COUNTED: Counted = {};

interface Pipeline {
  begin(call: Call): ServedRequest;
  /** Answers. `undefined` when the endpoint has written the whole answer itself. @throws whatever ends the request */
  run(endpoint: Endpoint, exchange: ServedRequest): Promise<RouteReply | undefined>;
  /** The answer to an error. `undefined` when the client is gone. Never rejects. */
  refuse(error: unknown, exchange: ServedRequest): Promise<RouteReply | undefined>;
  /** Counts, times and logs an answer. */
  report(exchange: ServedRequest): void;
}

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { clock, log, metrics, auth, limits } = deps;
  const checks: CheckDeps = { ...deps, refused: deps.trail ?? (() => Promise.resolve()) };
  const mayTellRefusal = createLineBound(clock, (count) =>
    log.warn("more requests were refused than are logged", { count }),
  );
  const mayTellFault = createLineBound(clock, (count) => log.error("more requests failed than are logged", { count }));

  async function countOperation({ method, path, limit }: AnyOperation, call: Call): Promise<Counted> {
    const principal = await authenticated(auth, call);
    if (limit === false) return { principal };
    const verdict = await limits.check(limit ?? `${method} ${path}`, principal.sub);
    if (verdict?.code) throw new Refused(verdict, principal);
    return { principal, verdict };
  }

  async function countRoute(route: Route, call: Call): Promise<Counted> {
    const { limit } = route;
    if (route.identify === undefined) {
      if (limit === undefined) return NOT_COUNTED;
      return countCaller(limit, { counted: addressGroup(call.address), caller: undefined });
    }
    const who = await route.identify(call);
    return limit === undefined ? { caller: who.caller, access: who.access } : countCaller(limit, who);
  }

  async function countCaller(limit: string, { counted, caller, access }: Identified): Promise<Counted> {
    const verdict = await limits.check(limit, counted);
    if (verdict?.code) throw new Refused(verdict);
    return { verdict, caller, access };
  }

  async function runOperation(operation: AnyOperation, exchange: ServedRequest): Promise<RouteReply | undefined> {
    const { call, counted, limitHeaders } = exchange;
    const ask = await readAsk(operation, call, counted.principal as Principal, checks);
    const answered = await operation.handle(ask);
    if ("stream" in answered) {
      await answered.stream(call, { ...limitHeaders, "X-Request-Id": call.requestId });
      return undefined;
    }
    return envelope({ status: operation.reply.status, ...answered }, clock.now());
  }

  /** Finds the problem that the client gets for an error, counts a failed authentication, and logs a fault of ours. */
  async function judged(error: unknown, exchange: ServedRequest): Promise<Problem> {
    const { call } = exchange;
    let problem = problemOf(error);
    try {
      if (problem.code === "UNAUTHENTICATED") {
        const verdict = await limits.unauthenticated(addressGroup(call.address));
        if (verdict.code) problem = new Refused(verdict);
      }
    } catch (failure) {
      problem = problemOf(failure);
    }
    if (problem.status >= 500 && problem.code !== "SHUTTING_DOWN" && problem.extras.refusal !== true) {
      const fault = error instanceof Error ? error : new Error(String(error));
      exchange.told = mayTellFault(`${fault.name} ${fault.message}`);
      const fields = { requestId: call.requestId, error: fault.name, detail: fault.message };
      if (exchange.told) log.error("a request failed", fields);
    }
    return problem;
  }

  function tellRefused({ code }: Problem, { params }: Call, principal: Principal | undefined): void {
    const { keyId } = params;
    const owned = keyId !== undefined && principal !== undefined && owns(principal, keyId);
    deps.refused?.(code as LimitRefusalCode, owned ? keyId : undefined);
  }

  async function refusal(error: unknown, exchange: ServedRequest): Promise<RouteReply> {
    const { call, counted } = exchange;
    const problem = await judged(error, exchange);
    const limiter = error instanceof Refused ? error : undefined;
    exchange.code = problem.code;
    exchange.refusal = problem.extras.refusal === true;
    exchange.limitHeaders = (counted.verdict ?? limiter?.verdict)?.headers;
    if (problem.status === 429) tellRefused(problem, call, limiter?.principal ?? counted.principal);
    const free = problem.status >= 500 || problem.code === "PROVIDER_BACKPRESSURE";
    if (free && counted.verdict) exchange.limitHeaders = await counted.verdict.giveBack();
    return problemReply(problem, call.requestId);
  }

  /** What a reader, or the holder of a portal link, may not do is on the audit trail like other refusals. */
  async function noteForbidden(route: string, call: Call, { principal, caller }: Counted): Promise<void> {
    const who = principal ?? (caller as Principal | undefined);
    if (who?.sub === undefined) return;
    const { keyId = "", subscriptionId, eventId } = call.params;
    const actor = { sub: who.sub, address: call.address, requestId: call.requestId };
    const target = (subscriptionId ?? eventId ?? keyId).slice(0, 128);
    const facts = { action: "access", target, detail: route } as const;
    await checks.refused({ ...facts, actor, keys: owns(who, keyId) ? [keyId] : "*" }, `${who.sub} ${route} ${keyId}`);
  }

  return {
    begin: (call) => ({
      call,
      startedAt: clock.monotonic(),
      where: "none",
      counted: NOT_COUNTED,
      limitHeaders: undefined,
      code: undefined,
      refusal: false,
      told: undefined,
      status: undefined,
    }),

    async run(endpoint, exchange) {
      const { call } = exchange;
      exchange.where = endpoint.path;
      const counted = await (endpoint.route
        ? countRoute(endpoint.route, call)
        : countOperation(endpoint.operation, call));
      exchange.counted = counted;
      exchange.limitHeaders = counted.verdict?.headers;
      try {
        checkAccess(endpoint.route ?? endpoint.operation, (counted.principal ?? counted).access);
        if (endpoint.operation) checkPortal(endpoint.operation, counted.principal as Principal);
      } catch (error) {
        await noteForbidden(`${call.method} ${endpoint.path}`, call, counted);
        throw error;
      }
      const reply = endpoint.route
        ? await endpoint.route.handle(call, counted.caller)
        : await runOperation(endpoint.operation, exchange);
      if (reply !== undefined && reply.status >= 500 && counted.verdict)
        exchange.limitHeaders = await counted.verdict.giveBack();
      return reply;
    },

    async refuse(error, exchange) {
      if (error instanceof Gone) return undefined;
      try {
        return await refusal(error, exchange);
      } catch (failure) {
        const { requestId } = exchange.call;
        log.error("an answer failed", { requestId, error: (failure as Error).name });
        return problemReply(problemOf(failure), requestId);
      }
    },

    report({ call, startedAt, where, counted, code, refusal, told, status }) {
      if (status === undefined) return;
      const durationMs = clock.monotonic() - startedAt;
      metrics.count("http_requests", { route: where, status: String(status) });
      metrics.observe("request_seconds", durationMs / 1_000);
      const fault = status >= 500 && !refusal;
      const known = counted.principal !== undefined || fault;
      // A publish that is stored has its log line already.
      if (!known && code === undefined) return;
      const mayTell = fault
        ? (told ?? mayTellFault(`${where} ${status}`))
        : known || mayTellRefusal(addressGroup(call.address));
      if (!mayTell) return;
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
