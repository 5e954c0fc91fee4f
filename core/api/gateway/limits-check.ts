/** `/limits/check`: decides and counts for a proxy (nginx, Traefik, Envoy) that forwards `/v1` itself. */
import { z } from "zod";
import type { Limiter, LimitVerdict } from "../../limits/limiter.ts";
import { bearerCheck } from "../../model/token.ts";
import { Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Route, RouteDescription, RouteReply, RouteRequest } from "../../ports/route.ts";
import type { Call } from "../http/call.ts";
import { callersIn, limitsOnly } from "./headers.ts";
import { createFindRoute, gatewayRoutes, mayBeGateway, normalPath } from "./request-path.ts";
import { envelope, GO_SLOWER } from "../http/reply.ts";
import { meta, note } from "../resources/fields.ts";

interface LimitsCheckDeps {
  /** The proxy sends it as `Authorization: Bearer`. */
  readonly token: string;
  /** Names of limit rows: those under `/v1` are counted. */
  readonly rows: readonly string[];
  /** The header that carries a client's API key. @default "X-API-Key" */
  readonly keyHeader?: string | undefined;
  readonly limits: Pick<Limiter, "check">;
  readonly clock: Pick<Clock, "now">;
}

const PATH = "/limits/check";
/** The code of a refusal, for a proxy that can only read headers. */
const CODE = "X-Limit-Code";
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

const text = (description: string, ...examples: string[]) => note(z.string().optional(), description, ...examples);
const paths = ["/v1/qr?page=2", "/v1/qr/create"];
const client = {
  "X-Original-Authorization": text("The client's own `Authorization`, where it may carry the key."),
  "X-Forwarded-For": text("The client's address, believed of a proxy in `server.trustedProxies`.", "203.0.113.9"),
};
const allowed = z.strictObject({ data: z.strictObject({ allowed: z.literal(true) }).meta({ id: "Allowed" }), meta });
const below: RouteDescription = {
  summary: "The same for a proxy that asks with the method itself, and with the path behind this one (Envoy)",
  tag: "Limits",
  security: { name: "check", description: "The token of `limits.check`." },
  headers: z.strictObject(client),
  answers: [{ status: 200, description: "It may pass.", content: { schema: allowed } }],
  problems: [
    "VALIDATION_FAILED",
    "UNAUTHENTICATED",
    "NOT_FOUND",
    "ABUSE_SUSPEND",
    "RATE_LIMIT_EXCEEDED",
    "BURST_EXCEEDED",
    "INTERNAL_ERROR",
    "STORAGE_UNAVAILABLE",
  ],
};
const exact: RouteDescription = {
  ...below,
  operationId: "checkLimits",
  summary: "For a proxy that asks first: decide whether a request to /v1 may pass, and count it",
  query: z.strictObject({
    deny: note(z.enum(["403"]).optional(), "Refusals are 403, for nginx; `X-Limit-Code` has the code."),
  }),
  headers: z.strictObject({
    "X-Original-Method": text("The method that is asked about, as nginx sends it.", "GET", "POST"),
    "X-Original-URI": text("The path that is asked about, as nginx sends it.", ...paths),
    "X-Forwarded-Method": text("The method that is asked about, as Traefik sends it.", "GET", "POST"),
    "X-Forwarded-Uri": text("The path that is asked about, as Traefik sends it.", ...paths),
    ...client,
  }),
  answers: [...below.answers, { status: 403, description: "It may not pass, and `deny=403` was asked for." }],
};

/** The request that a proxy asks about. */
interface Asked {
  readonly method: string;
  /** Without its query. */
  readonly path: string;
}

export function limitsCheckRoutes(deps: LimitsCheckDeps): readonly Route[] {
  const { limits, clock } = deps;
  const mayAsk = bearerCheck(deps.token);
  const keyHeader = (deps.keyHeader ?? "x-api-key").toLowerCase();
  const find = createFindRoute(gatewayRoutes(deps.rows));

  async function count({ method, path }: Asked, request: RouteRequest): Promise<LimitVerdict | undefined> {
    const normal = normalPath(path);
    const route = normal === undefined ? undefined : find(method, normal);
    if (route === undefined) {
      // A path under /v1 that the relay would not forward must not pass here either. Other paths are not limited.
      if (mayBeGateway(path)) throw new Problem("NOT_FOUND", "There is no such operation under /v1.");
      return undefined;
    }
    // The server hands every route its own Call. Only the raw headers show a name that is there twice.
    const { rawHeaders } = (request as Call).req;
    const callers = callersIn(rawHeaders, keyHeader, "x-original-authorization", request.address);
    return await limits.check(`${route.method} ${route.path}`, callers);
  }

  async function answer(request: RouteRequest, asked: () => Asked, denied: number | undefined): Promise<RouteReply> {
    if (!mayAsk(request.header("authorization")))
      throw new Problem("UNAUTHENTICATED", "Send the token of limits.check as Bearer token.");
    let verdict: LimitVerdict | undefined;
    try {
      verdict = await count(asked(), request);
    } catch (error) {
      if (denied === undefined || !(error instanceof Problem) || error.status !== 404) throw error;
      return { status: denied };
    }
    const { code, retryAfter, headers = {} } = verdict ?? {};
    if (code === undefined) {
      const reply = envelope({ data: { allowed: true } }, clock.now());
      return { ...reply, headers: { ...headers } };
    }
    if (denied !== undefined) return { status: denied, headers: { ...headers, [CODE]: code } };
    throw new Problem(code, GO_SLOWER, { retryAfter, headers: { ...limitsOnly(headers), [CODE]: code } });
  }

  const named: Route = {
    method: "GET",
    path: PATH,
    describe: exact,
    handle: (request) =>
      answer(request, () => namedRequest(request), request.query.get("deny") === "403" ? 403 : undefined),
  };
  const behind = METHODS.map((method): Route => ({
    method,
    path: `${PATH}/{*}`,
    describe: below,
    handle: (request) =>
      answer(request, () => ({ method: request.method, path: request.path.slice(PATH.length) }), undefined),
  }));
  return [named, ...behind];
}

/**
 * Reads from nginx or Traefik which request they ask about. A client can send the headers of the other one, and they may reach us: where
 * both are there, they have to agree.
 * @throws Problem VALIDATION_FAILED
 */
function namedRequest(request: RouteRequest): Asked {
  const found = (["x-original", "x-forwarded"] as const).flatMap((family) => {
    const method = request.header(`${family}-method`);
    const uri = request.header(`${family}-uri`);
    return method === undefined && uri === undefined ? [] : [{ method, uri }];
  });
  const [first, second] = found;
  const ambiguous = second !== undefined && (second.method !== first?.method || second.uri !== first?.uri);
  const { method, uri } = first ?? {};
  if (ambiguous || method === undefined || uri === undefined) {
    const detail = ambiguous
      ? "X-Original-* and X-Forwarded-* say different things: let the proxy clear those that it does not set."
      : "Say which request this is about: X-Original-Method and X-Original-URI, or X-Forwarded-Method and -Uri.";
    throw new Problem("VALIDATION_FAILED", detail);
  }
  const path = uri.replace(/^https?:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  return { method: method.toUpperCase(), path: path === "" ? "/" : path };
}
