/** Makes problem details of whatever ends a request, and reports each request that is answered. */
import type { LimitRefusalCode } from "../../limits/limiter.ts";
import { addressGroup } from "../../lib/address.ts";
import type { Problem } from "../../model/problem.ts";
import type { RouteReply } from "../../ports/route.ts";
import { Gone } from "./body.ts";
import { type Exchange, giveBack } from "./call.ts";
import { createLineBound } from "./line-bound.ts";
import { overLimit, problemOf, problemReply } from "./reply.ts";
import { type ExchangeDeps, owns } from "./stations.ts";

interface Refusals {
  /** Returns the answer to an error; `undefined` when the client is gone. Never rejects. */
  answer(error: unknown, exchange: Exchange): Promise<RouteReply | undefined>;
  /** Counts, times and logs an answer. */
  report(exchange: Exchange): void;
}

export function createRefusals(deps: ExchangeDeps): Refusals {
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
    async answer(error, exchange) {
      if (error instanceof Gone) return undefined;
      try {
        return await refusal(error, exchange);
      } catch (failure) {
        const { requestId } = exchange.call;
        log.error("an answer failed", { requestId, error: (failure as Error).name });
        return problemReply(problemOf(failure), requestId);
      }
    },

    report({ call, startedAt, where, principal, verdict, code, refusal: refused, logged, status }) {
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
