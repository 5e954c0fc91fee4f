/** The gateway: matches and limits requests to `/v1` and passes them on to the upstream. It authenticates nobody. */
import { Readable } from "node:stream";
import { retryAfterMs } from "../../deliver/outcome.ts";
import type { Caller, Limiter, LimitVerdict } from "../../limits/limiter.ts";
import { Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/plugin.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { createTrust, peerOf } from "../http/client-address.ts";
import { Gone, hasBody, HeldBody, readBody } from "../http/body.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import type { Call } from "../http/call.ts";
import { callersOf, credentialsIn } from "./callers.ts";
import { describeGateway } from "./description.ts";
import { createFailureLog } from "./failure-log.ts";
import { limitsOnly, requestPairs, responsePairs, valuesOf } from "./headers.ts";
import { askedHost, createFindRoute, type GatewayRoute, gatewayRoutes, normalPath, queryOf } from "./request-path.ts";
import { checkBody, openUpload } from "./upload.ts";
import { createPlaces, type UploadPlace } from "./places.ts";
import { createLoopCheck } from "./refuse-loop.ts";
import { createUpstreamRest } from "./rest.ts";
import { type Answering, createUpstream, type Upstream, type UpstreamOptions } from "./upstream.ts";
import { envelope, GO_SLOWER, problemOf } from "../http/reply.ts";

export interface GatewayDeps {
  /** Names of limit rows: those under `/v1` are the operations. */
  readonly rows: readonly string[];
  /** Left out, only `GET /v1/health` answers, for the relay itself. */
  readonly upstream?: (Omit<UpstreamOptions, "clock"> & { readonly keyHeader: string }) | undefined;
  readonly limits: Pick<Limiter, "check">;
  /** Proxies in front of the relay. Their `X-Forwarded-Proto` and `-Host` are taken as true. */
  readonly trustedProxies: readonly string[];
  /** Names the relay in `Via`: the same on all of its nodes, and on no other relay. @default "relaybox" */
  readonly name?: string;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Gateway {
  readonly routes: readonly Route[];
  dispose(): Promise<void>;
}

const BODY_BYTES = 1_048_576;
/** Most bytes that bodies hold while they wait for a place at the upstream. */
const WAITING_BYTES = 33_554_432;
/** Requests at the upstream at once, by default. */
const CONCURRENCY = 128;
const UPSTREAM_BUSY = "The upstream is busy; come back later.";
const WAIT_MIN_S = 1;
const WAIT_MAX_S = 300;
/** `Retry-After` where no upstream is configured, seconds. */
const NOT_CONFIGURED_S = 60;

export function createGateway(deps: GatewayDeps): Gateway {
  const { clock, limits, name = "relaybox" } = deps;
  const keyHeader = (deps.upstream?.keyHeader ?? "x-api-key").toLowerCase();
  const trusted = createTrust(deps.trustedProxies);
  const routes = gatewayRoutes(deps.rows);
  const find = createFindRoute(routes);
  const upstream = deps.upstream && createUpstream({ clock, ...deps.upstream });
  const rest = createUpstreamRest(clock);
  const refuseLoop = createLoopCheck(name, deps);
  const logFailure = createFailureLog(deps);
  const places = createPlaces(deps.upstream?.concurrency ?? CONCURRENCY);
  const waiting = createBodyBudget(WAITING_BYTES, 2 * BODY_BYTES);

  function pairsOf({ req, address, requestId }: Call): readonly string[] {
    const peer = trusted(peerOf(req));
    const [proto = ""] = peer ? valuesOf(req.rawHeaders, "x-forwarded-proto") : [];
    const [host = askedHost(req.url ?? "") ?? req.headers.host] = peer
      ? valuesOf(req.rawHeaders, "x-forwarded-host")
      : [];
    const own = "encrypted" in req.socket ? "https" : "http";
    const origin = { address, proto: /^https?$/i.test(proto) ? proto.toLowerCase() : own, host, requestId, name };
    return requestPairs(req.rawHeaders, origin, keyHeader);
  }

  async function count(row: string, callers: readonly Caller[]): Promise<LimitVerdict | undefined> {
    const busyMs = rest.leftMs(row, callers[0]?.principal ?? "");
    const verdict = await limits.check(row, callers, { busyMs });
    if (verdict?.code === undefined) return verdict;
    const busy = verdict.code === "PROVIDER_BACKPRESSURE";
    const detail = busy ? UPSTREAM_BUSY : GO_SLOWER;
    const { retryAfter = WAIT_MIN_S } = verdict;
    throw new Problem(verdict.code, detail, { retryAfter, headers: limitsOnly(verdict.headers) });
  }

  /**
   * Takes a place at the upstream for a request. Only a few places are for requests whose body is still on its way. Without
   * one of those, the request reads its body first and takes a place then, so that a stalled upload blocks no place.
   */
  async function placed(call: Call, callers: readonly string[], end: AbortController): Promise<Placed> {
    const { req } = call;
    if (!hasBody(req)) return { place: places.take(callers, false) ?? full() };
    const place = places.take(callers, true);
    if (place !== undefined) {
      const body = openUpload(req, BODY_BYTES, (error) => end.abort(error), place.uploaded);
      return { place, body };
    }
    const held = new HeldBody(waiting, () => callers);
    try {
      const body = await readBody(req, BODY_BYTES, held);
      return { place: places.take(callers, false) ?? full(), body, held };
    } catch (error) {
      held.release();
      throw error;
    }
  }

  async function answer(route: GatewayRoute, call: Call): Promise<RouteReply> {
    const path = normalPath(call.path);
    // In another spelling the path could name another operation. The one that is counted must be the one that is forwarded.
    if (path === undefined || find(call.method, path) !== route)
      throw new Problem("NOT_FOUND", "There is no such path.");
    refuseLoop(call.req.rawHeaders);
    const pairs = pairsOf(call);
    const row = `${route.method} ${route.path}`;
    const callers = callersOf(credentialsIn(pairs, keyHeader, "authorization"), call.address);
    const verdict = await count(row, callers);
    try {
      if (upstream !== undefined) return await forward(upstream, call, { path, row, pairs, callers, verdict });
      if (route.path !== "/v1/health") {
        const detail = "The operator has named no upstream (gateway.upstream) to answer this.";
        throw new Problem("UPSTREAM_NOT_CONFIGURED", detail, { retryAfter: NOT_CONFIGURED_S, refusal: true });
      }
      const reply = envelope({ data: { status: "ok" } }, clock.now());
      return { ...reply, headers: { ...verdict?.headers } };
    } catch (error) {
      throw await refusal(error, verdict);
    }
  }

  /** Adds the limit headers to an error. A fault of ours, or of the upstream, gives the slot back first. */
  async function refusal(error: unknown, verdict: LimitVerdict | undefined): Promise<unknown> {
    if (error instanceof Gone || verdict === undefined) return error;
    const { code, status, detail, extras } = problemOf(error);
    const free = status >= 500 || code === "PROVIDER_BACKPRESSURE";
    if (!(error instanceof Problem)) logFailure("error", "a request failed", { error: (error as Error).name });
    const headers = limitsOnly(free ? await verdict.giveBack() : verdict.headers);
    return new Problem(code, detail, { ...extras, headers: { ...headers, ...extras.headers } });
  }

  async function forward(
    to: Upstream,
    call: Call,
    { path, row, pairs, callers, verdict }: Counted,
  ): Promise<RouteReply> {
    const { req, res, method } = call;
    const names = callers.map(({ principal }) => principal);
    checkBody(req, BODY_BYTES);
    // It left while it was counted: nothing tells of that any more.
    if (res.destroyed) throw new Gone();
    const end = new AbortController();
    const left = (): void => end.abort(new Gone());
    res.once("close", left);
    let sent: Placed | undefined;
    try {
      sent = await placed(call, names, end);
      const { body, place } = sent;
      const length = req.headers["content-length"];
      const headers = body !== undefined && length !== undefined ? [...pairs, "content-length", length] : pairs;
      const request = { method, path: path + queryOf(req.url ?? ""), headers, body };
      const answering = await to.send(request, end.signal, place.leave);
      const { status } = answering.head;
      if (status === 429 || status === 503) throw busy(answering, row, names[0] ?? "");
      await pass(call, answering, verdict);
      return { status };
    } catch (error) {
      if (error instanceof Problem || error instanceof Gone) throw error;
      const { name, message } = error as Error;
      logFailure("warn", "the upstream did not answer", { requestId: call.requestId, error: name, detail: message });
      throw new Problem("UPSTREAM_UNAVAILABLE", "Try again; the upstream did not answer in time, or not at all.");
    } finally {
      if (sent?.body instanceof Readable) sent.body.destroy();
      sent?.held?.release();
      res.off("close", left);
    }
  }

  /** The problem that stands for a 429 or 503 of the upstream. */
  function busy({ head, exchange }: Answering, row: string, key: string): Problem {
    exchange.drop();
    const ms = retryAfterMs(valuesOf(head.headers, "retry-after")[0], clock.now()) ?? 0;
    const retryAfter = Math.min(WAIT_MAX_S, Math.max(WAIT_MIN_S, Math.ceil(ms / 1_000)));
    if (head.status === 503) rest.all(retryAfter * 1_000);
    else rest.row(row, key, retryAfter * 1_000);
    return new Problem("PROVIDER_BACKPRESSURE", UPSTREAM_BUSY, { retryAfter });
  }

  /** Passes the answer to the client. An error after the head can only cut the answer off. */
  async function pass(
    { req, res, requestId }: Call,
    { head, exchange }: Answering,
    verdict?: LimitVerdict,
  ): Promise<void> {
    try {
      const pairs = responsePairs(head, requestId, verdict?.headers);
      // Node reads nothing more of a connection on which an upgrade was asked for and refused.
      if (req.headers.upgrade !== undefined) pairs.push("Connection", "close");
      res.writeHead(head.status, pairs);
    } catch (error) {
      exchange.abort(error as Error);
      throw error;
    }
    res.flushHeaders();
    try {
      await exchange.pipe(res);
      res.end();
    } catch (error) {
      logFailure("warn", "an answer of the upstream was cut off", { requestId, detail: (error as Error).message });
      res.destroy();
    }
  }

  return {
    routes: routes.map((route) => ({
      method: route.method,
      path: route.path,
      describe: describeGateway(route.method, deps.upstream?.keyHeader),
      // The server hands every route its own Call: a gateway cannot do without the sockets behind it.
      handle: (request) => answer(route, request as Call),
    })),
    dispose: async () => upstream?.dispose(),
  };
}

/** A request that the limits have counted. */
interface Counted {
  readonly path: string;
  readonly row: string;
  readonly pairs: readonly string[];
  readonly callers: readonly Caller[];
  readonly verdict: LimitVerdict | undefined;
}

interface Placed {
  readonly place: UploadPlace;
  readonly body?: Readable | Uint8Array;
  /** The memory that a body holds which was read first. */
  readonly held?: HeldBody;
}

function full(): never {
  const detail = "The upstream has as many requests as it may have, in all or of you; come back later.";
  throw new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: WAIT_MIN_S });
}
