/** What is known of `/v1` and `/limits/check`, for the documentation. */
import { z } from "zod";
import type { ProblemCode } from "../../model/problem.ts";
import type { KnownRoute } from "../reference/publishing.ts";

const REFUSED: readonly ProblemCode[] = ["ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED"];
const ALWAYS: readonly ProblemCode[] = ["VALIDATION_FAILED", "NOT_FOUND", "INTERNAL_ERROR", "STORAGE_UNAVAILABLE"];

const operation: KnownRoute = {
  summary: "Counted, limited and passed on to the upstream, which authenticates and answers",
  tag: "Gateway",
  security: [{ apiKey: [] }],
  through: true,
  replies: [],
  problems: [
    ...ALWAYS,
    "PAYLOAD_TOO_LARGE",
    ...REFUSED,
    "PROVIDER_BACKPRESSURE",
    "UPSTREAM_UNAVAILABLE",
    "UPSTREAM_NOT_CONFIGURED",
  ],
};

const meta = z.strictObject({ timestamp: z.iso.datetime() });
const allowed = z.strictObject({ data: z.strictObject({ allowed: z.literal(true) }), meta });
const text = (description: string, ...examples: string[]) =>
  z
    .string()
    .optional()
    .meta({ description, ...(examples.length > 0 && { examples }) });
const METHODS = ["GET", "POST"];
const PATHS = ["/v1/qr?page=2", "/v1/qr/create"];
const client = {
  "X-Original-Authorization": text("The client's own `Authorization`, where it may carry the key."),
  "X-Forwarded-For": text("The client's address, believed of a proxy in `server.trustedProxies`.", "203.0.113.9"),
};
const check: KnownRoute = {
  summary: "For a proxy that asks first: decide whether a request to /v1 may pass, and count it",
  tag: "Limits",
  security: [{ check: [] }],
  query: z.strictObject({
    deny: z
      .literal("403")
      .optional()
      .meta({ description: "Refusals are 403, for nginx; `X-Limit-Code` has the code." }),
  }),
  headers: z.strictObject({
    "X-Original-Method": text("The method that is asked about, as nginx sends it.", ...METHODS),
    "X-Original-URI": text("The path that is asked about, as nginx sends it.", ...PATHS),
    "X-Forwarded-Method": text("The method that is asked about, as Traefik sends it.", ...METHODS),
    "X-Forwarded-Uri": text("The path that is asked about, as Traefik sends it.", ...PATHS),
    ...client,
  }),
  replies: [
    [200, allowed],
    [403, undefined],
  ],
  problems: ["UNAUTHENTICATED", ...ALWAYS, ...REFUSED],
};
const checkBelow: KnownRoute = {
  ...check,
  summary: "The same for a proxy that asks with the method itself, and with the path behind this one (Envoy)",
  query: undefined,
  headers: z.strictObject(client),
  replies: [[200, allowed]],
};

/** What is known of a route by its path; undefined for one that is not of the gateway. */
export function gatewayRoute(path: string): KnownRoute | undefined {
  if (path === "/limits/check") return check;
  if (path.startsWith("/limits/check/")) return checkBelow;
  return path.startsWith("/v1/") ? operation : undefined;
}
