/** The gateway: matches and limits requests to `/v1` and passes them on to the upstream. It authenticates nobody. */
import { Readable } from "node:stream";
import { retryAfterMs } from "../../deliver/outcome.ts";
import { setNewest } from "../../lib/bounded-map.ts";
import type { Caller, Limiter, LimitVerdict } from "../../limits/limiter.ts";
import { routeShape } from "../../limits/route-limits.ts";
import { Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, LogFields } from "../../ports/plugin.ts";
import type { AnswerDescription, Route, RouteDescription, RouteReply } from "../../ports/route.ts";
import { Gone } from "../http/body.ts";
import type { Call } from "../http/call.ts";
import { createLineBound } from "../../lib/line-bound.ts";
import { createTrust } from "../../ports/networks.ts";
import { peerOf } from "../http/client-address.ts";
import { envelope, GO_SLOWER, problemOf } from "../http/reply.ts";
import { callersIn, limitsOnly, requestPairs, responsePairs, valuesOf } from "./headers.ts";
import { type Admitted, BODY_BYTES, checkBody, Places } from "./places.ts";
import { saidHost } from "../../lib/said-host.ts";
import { askedHost, createFindRoute, type GatewayRoute, gatewayRoutes, normalPath, queryOf } from "./request-path.ts";
import { type Answering, CONCURRENCY, Upstream, type UpstreamOptions } from "./upstream.ts";

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

const UPSTREAM_BUSY = "The upstream is busy; come back later.";
const WAIT_MIN_S = 1;
const WAIT_MAX_S = 300;
/** `Retry-After` where no upstream is configured, seconds. */
const NOT_CONFIGURED_S = 60;
/** After a line on a loop in the log the next one comes this much later at the earliest, ms: anybody may name the relay in `Via`. */
const QUIET_MS = 60_000;

export function createGateway(deps: GatewayDeps): Gateway {
  const routes = gatewayRoutes(deps.rows);
  const passage = new Passage(deps, routes);
  return {
    routes: routes.map((route) => ({
      method: route.method,
      path: route.path,
      describe: describeGateway(route.method, deps.upstream?.keyHeader),
      // The server hands every route its own Call: a gateway cannot do without the sockets behind it.
      handle: (request) => passage.answer(route, request as Call),
    })),
    dispose: () => passage.dispose(),
  };
}

/** A request that the limits have counted. */
interface Counted {
  readonly path: string;
  readonly row: string;
  readonly pairs: readonly string[];
  readonly callers: readonly string[];
  readonly verdict: LimitVerdict | undefined;
}

/** Takes a request through the gateway: count it, give it a place, send it, pass the answer on. */
class Passage {
  readonly #deps: GatewayDeps;
  readonly #name: string;
  readonly #keyHeader: string;
  readonly #trusted: (address: string) => boolean;
  readonly #find: ReturnType<typeof createFindRoute>;
  readonly #upstream: Upstream | undefined;
  readonly #rest: ReturnType<typeof createUpstreamRest>;
  readonly #places: Places;
  readonly #mayLog: (group: string) => boolean;
  /** Requests that came back since the last line on it, and when the next line may come. */
  readonly #loops = { count: 0, quietUntil: Number.NEGATIVE_INFINITY };

  constructor(deps: GatewayDeps, routes: readonly GatewayRoute[]) {
    const { clock, log, upstream } = deps;
    this.#deps = deps;
    this.#name = deps.name ?? "relaybox";
    this.#keyHeader = (upstream?.keyHeader ?? "x-api-key").toLowerCase();
    this.#trusted = createTrust(deps.trustedProxies);
    this.#find = createFindRoute(routes);
    this.#upstream = upstream && new Upstream({ clock, ...upstream });
    this.#rest = createUpstreamRest(clock);
    this.#places = new Places(upstream?.concurrency ?? CONCURRENCY);
    this.#mayLog = createLineBound(clock, (count) =>
      log.warn("more requests of the gateway failed than are logged", { count }),
    );
  }

  async answer(route: GatewayRoute, call: Call): Promise<RouteReply> {
    const path = normalPath(call.path);
    // In another spelling the path could name another operation. The one that is counted must be the one that is forwarded.
    if (path === undefined || this.#find(call.method, path) !== route)
      throw new Problem("NOT_FOUND", "There is no such path.");
    this.#refuseLoop(call);
    const pairs = this.#pairsOf(call);
    const row = `${route.method} ${route.path}`;
    const counted = callersIn(pairs, this.#keyHeader, "authorization", call.address);
    const callers = counted.map(({ principal }) => principal);
    const verdict = await this.#count(row, counted);
    try {
      if (this.#upstream !== undefined)
        return await this.#forward(this.#upstream, call, { path, row, pairs, callers, verdict });
      if (route.path !== "/v1/health") {
        const detail = "The operator has named no upstream (gateway.upstream) to answer this.";
        throw new Problem("UPSTREAM_NOT_CONFIGURED", detail, { retryAfter: NOT_CONFIGURED_S, refusal: true });
      }
      const reply = envelope({ data: { status: "ok" } }, this.#deps.clock.now());
      return { ...reply, headers: { ...verdict?.headers } };
    } catch (error) {
      throw await this.#refusal(error, verdict);
    }
  }

  async dispose(): Promise<void> {
    await this.#upstream?.dispose();
  }

  /** Ends a request that comes back because the upstream, by whatever way, is the relay itself. @throws Problem */
  #refuseLoop({ req }: Call): void {
    const hops = valuesOf(req.rawHeaders, "via").flatMap((value) => value.split(","));
    if (!hops.some((hop) => hop.trim() === `1.1 ${this.#name}`)) return;
    const { clock, log } = this.#deps;
    const loops = this.#loops;
    const count = ++loops.count;
    if (clock.monotonic() >= loops.quietUntil) {
      log.error("the upstream of the gateway leads back to the relay: change gateway.upstream", { count });
      loops.quietUntil = clock.monotonic() + QUIET_MS;
      loops.count = 0;
    }
    const detail = "The upstream of this gateway leads back to the gateway itself.";
    throw new Problem("UPSTREAM_UNAVAILABLE", detail, { refusal: true });
  }

  #pairsOf({ req, address, requestId }: Call): readonly string[] {
    const fromPeer = (name: string): string | undefined =>
      this.#trusted(peerOf(req)) ? valuesOf(req.rawHeaders, name)[0] : undefined;
    const said = fromPeer("x-forwarded-proto")?.toLowerCase();
    const own = "encrypted" in req.socket ? "https" : "http";
    const proto = said === "http" || said === "https" ? said : own;
    const host = fromPeer("x-forwarded-host") ?? saidHost(askedHost(req.url ?? "") ?? req.headers.host);
    return requestPairs(req.rawHeaders, { address, proto, host, requestId, name: this.#name }, this.#keyHeader);
  }

  async #count(row: string, callers: readonly Caller[]): Promise<LimitVerdict | undefined> {
    const busyMs = this.#rest.leftMs(row, callers[0]?.principal ?? "");
    const verdict = await this.#deps.limits.check(row, callers, { busyMs });
    if (verdict?.code === undefined) return verdict;
    const detail = verdict.code === "PROVIDER_BACKPRESSURE" ? UPSTREAM_BUSY : GO_SLOWER;
    const { retryAfter = WAIT_MIN_S } = verdict;
    throw new Problem(verdict.code, detail, { retryAfter, headers: limitsOnly(verdict.headers) });
  }

  /** Adds the limit headers to an error. A fault of ours, or of the upstream, gives the slot back first. */
  async #refusal(error: unknown, verdict: LimitVerdict | undefined): Promise<unknown> {
    if (error instanceof Gone || verdict === undefined) return error;
    const { code, status, detail, extras } = problemOf(error);
    const free = status >= 500 || code === "PROVIDER_BACKPRESSURE";
    if (!(error instanceof Problem)) this.#log("error", "a request failed", { error: (error as Error).name });
    const headers = limitsOnly(free ? await verdict.giveBack() : verdict.headers);
    return new Problem(code, detail, { ...extras, headers: { ...headers, ...extras.headers } });
  }

  async #forward(upstream: Upstream, call: Call, counted: Counted): Promise<RouteReply> {
    const { req, res, method } = call;
    const { path, pairs, callers } = counted;
    checkBody(req, BODY_BYTES);
    // It left while it was counted: no event of its response says so any more.
    if (res.destroyed) throw new Gone();
    const end = new AbortController();
    const left = (): void => end.abort(new Gone());
    res.once("close", left);
    let sent: Admitted | undefined;
    try {
      sent = await this.#places.admit(call, callers, end);
      const { body, place } = sent;
      const length = req.headers["content-length"];
      const headers = body !== undefined && length !== undefined ? [...pairs, "content-length", length] : pairs;
      const request = { method, path: path + queryOf(req.url ?? ""), headers, body };
      const answering = await upstream.send(request, end.signal, place.leave);
      const { status } = answering.head;
      if (status === 429 || status === 503) throw this.#busy(answering, counted);
      await this.#pass(call, answering, counted.verdict);
      return { status };
    } catch (error) {
      if (error instanceof Problem || error instanceof Gone) throw error;
      const { name, message } = error as Error;
      this.#log("warn", "the upstream did not answer", { requestId: call.requestId, error: name, detail: message });
      throw new Problem("UPSTREAM_UNAVAILABLE", "Try again; the upstream did not answer in time, or not at all.");
    } finally {
      if (sent?.body instanceof Readable) sent.body.destroy();
      sent?.held?.release();
      res.off("close", left);
    }
  }

  /** Returns the problem that stands for a 429 or 503 of the upstream. */
  #busy({ head, exchange }: Answering, { row, callers }: Counted): Problem {
    exchange.drop();
    const ms = retryAfterMs(valuesOf(head.headers, "retry-after")[0], this.#deps.clock.now()) ?? 0;
    const retryAfter = Math.min(WAIT_MAX_S, Math.max(WAIT_MIN_S, Math.ceil(ms / 1_000)));
    if (head.status === 503) this.#rest.all(retryAfter * 1_000);
    else this.#rest.row(row, callers[0] ?? "", retryAfter * 1_000);
    return new Problem("PROVIDER_BACKPRESSURE", UPSTREAM_BUSY, { retryAfter });
  }

  /** Passes the answer to the client. An error after the head can only cut the answer off. */
  async #pass(call: Call, { head, exchange }: Answering, verdict: LimitVerdict | undefined): Promise<void> {
    const { req, res, requestId } = call;
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
      this.#log("warn", "an answer of the upstream was cut off", { requestId, detail: (error as Error).message });
      res.destroy();
    }
  }

  /** Logs what failed, within a bound per minute for one cause: an upstream that is down fails every request. */
  #log(level: "warn" | "error", message: string, fields: LogFields): void {
    if (this.#mayLog(`${message} ${String(fields["error"])} ${String(fields["detail"])}`))
      this.#deps.log[level](message, fields);
  }
}

/** Most rows and keys whose pause is remembered; the oldest one is forgotten first. */
const HELD = 10_000;

/** Keeps the `Retry-After` of the upstream: for one row and key after a 429, for all requests after a 503. */
export function createUpstreamRest(clock: Pick<Clock, "monotonic">) {
  const rows = new Map<string, number>();
  let allUntil = 0;
  // The two forms of an operation share a row.
  const nameOf = (row: string, key: string): string => `${routeShape(row)} ${key}`;
  return {
    /** Returns the time that is left for this row and key, ms; 0 when there is none. */
    leftMs(row: string, key: string): number {
      const now = clock.monotonic();
      const name = rows.size === 0 ? "" : nameOf(row, key);
      const until = rows.get(name) ?? 0;
      if (until > 0 && until <= now) rows.delete(name);
      return Math.max(0, until - now, allUntil - now);
    },
    /** Stops requests of this row and key, after a 429. */
    row: (row: string, key: string, ms: number): void =>
      setNewest(rows, nameOf(row, key), clock.monotonic() + ms, HELD),
    /** Stops all requests, after a 503. */
    all(ms: number): void {
      allUntil = Math.max(allUntil, clock.monotonic() + ms);
    },
  };
}

const ANYTHING = { type: "*/*" };
/** Statuses that both the relay and an upstream answer with. A 429 or 503 of the upstream gets a body of the relay. */
const SHARED: readonly number[] = [400, 404, 413, 500, 502];
const answers: readonly AnswerDescription[] = [
  { status: "default", description: "The upstream's own answer, whatever it is.", content: ANYTHING },
  ...SHARED.map((status) => ({ status, description: "Or the upstream's own answer.", content: ANYTHING })),
];

/** Describes an operation for `/openapi.json`: the upstream says what passes, the relay how it refuses. */
const describeGateway = (method: Route["method"], keyHeader = "X-API-Key"): RouteDescription => ({
  summary: "Counted, limited and passed on to the upstream, which authenticates and answers",
  tag: "Gateway",
  security: {
    name: "apiKey",
    header: keyHeader,
    description: "The key that the upstream asks for. The relay counts by it and checks nothing.",
    // A request without a key is counted by its address, and passes all the same.
    optional: true,
  },
  ...(method !== "GET" && { body: ANYTHING, bodyOptional: true }),
  answers,
  problems: [
    "VALIDATION_FAILED",
    "NOT_FOUND",
    "PAYLOAD_TOO_LARGE",
    "ABUSE_SUSPEND",
    "RATE_LIMIT_EXCEEDED",
    "BURST_EXCEEDED",
    "PROVIDER_BACKPRESSURE",
    "INTERNAL_ERROR",
    "STORAGE_UNAVAILABLE",
    "UPSTREAM_UNAVAILABLE",
    "UPSTREAM_NOT_CONFIGURED",
  ],
});
