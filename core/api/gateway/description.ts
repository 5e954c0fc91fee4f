/** How an operation of `/v1` stands in `/openapi.json`: what passes is the upstream's business, the refusals are ours. */
import type { AnswerDescription, Route, RouteDescription } from "../../ports/route.ts";

const ANYTHING = { type: "*/*" };

/** Statuses that both the relay and an upstream answer with. A 429 or 503 of the upstream gets a body of the relay. */
const SHARED: readonly number[] = [400, 404, 413, 500, 502];

const answers: readonly AnswerDescription[] = [
  { status: "default", description: "The upstream's own answer, whatever it is.", content: ANYTHING },
  ...SHARED.map((status) => ({ status, description: "Or the upstream's own answer.", content: ANYTHING })),
];

/** @param keyHeader in which clients send the key that they are counted by */
export const describeGateway = (method: Route["method"], keyHeader = "X-API-Key"): RouteDescription => ({
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
