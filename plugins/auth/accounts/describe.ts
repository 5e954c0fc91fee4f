/** Describes the routes of `accounts()` for the OpenAPI document. */
import { z } from "zod";
import type { ProblemCode } from "../../../core/model/problem.ts";
import type { RouteDescription, RouteSecurity } from "../../../core/ports/route.ts";

const ALWAYS: readonly ProblemCode[] = [
  "ABUSE_SUSPEND",
  "RATE_LIMIT_EXCEEDED",
  "BURST_EXCEEDED",
  "INTERNAL_ERROR",
  "STORAGE_UNAVAILABLE",
  "STORAGE_FULL",
];
const BODY: readonly ProblemCode[] = [
  "INVALID_JSON",
  "VALIDATION_FAILED",
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "PROVIDER_BACKPRESSURE",
];
const meta = z.strictObject({ timestamp: z.iso.datetime() });
const params = z.object({
  username: z
    .string()
    .min(1)
    .max(256)
    .meta({ examples: ["alice"] }),
});

interface Described {
  readonly body?: z.ZodType;
  /** Status of the answer, and what `data` is; without that it has no body. */
  readonly answer: readonly [status: number, data?: z.ZodType];
  /** In addition to those that every such route has. */
  readonly problems?: readonly ProblemCode[];
}

/** Describes a route that needs no token. */
export const describeOpen = (summary: string, { body, answer, problems = [] }: Described): RouteDescription => {
  const [status, data] = answer;
  return {
    summary,
    tag: "Accounts",
    ...(body && { body: { schema: body } }),
    answers: [data === undefined ? { status } : { status, content: { schema: z.strictObject({ data, meta }) } }],
    problems: ["UNAUTHENTICATED", ...(body ? BODY : []), ...problems, ...ALWAYS],
  };
};

const token: RouteSecurity = "access token";

/** Describes a route for tokens of a session. */
export const describeOwn = (summary: string, described: Described): RouteDescription => ({
  ...describeOpen(summary, described),
  security: token,
});

/** Describes a route for tokens that own every key, with a fresh second factor. */
export const describeAdmin = (summary: string, described: Described): RouteDescription => ({
  ...describeOwn(summary, {
    ...described,
    problems: ["NOT_FOUND", "STEP_UP_REQUIRED", ...(described.problems ?? [])],
  }),
  params,
});
