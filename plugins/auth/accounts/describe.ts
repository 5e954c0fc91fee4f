/** Makes the routes of `accounts()`, with their entries in the OpenAPI document. */
import { z } from "zod";
import type { ProblemCode } from "../../../core/model/problem.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Route, RouteDescription } from "../../../core/ports/route.ts";
import { type AccountsDeps, identifyOwner } from "./dependencies.ts";

const ALWAYS: readonly ProblemCode[] = [
  ...(["ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED"] as const),
  ...(["INTERNAL_ERROR", "STORAGE_UNAVAILABLE", "STORAGE_FULL"] as const),
];
const BODY: readonly ProblemCode[] = [
  ...(["INVALID_JSON", "VALIDATION_FAILED", "PAYLOAD_TOO_LARGE"] as const),
  ...(["UNSUPPORTED_MEDIA_TYPE", "PROVIDER_BACKPRESSURE"] as const),
];
const meta = z.strictObject({ timestamp: z.iso.datetime() }).meta({ id: "Meta" });
const username = z
  .string()
  .min(1)
  .max(256)
  .meta({ examples: ["alice"] });
const params = z.object({ username });

export interface Described {
  readonly operationId: string;
  readonly summary: string;
  readonly body?: z.ZodType;
  /** Status of the answer, and what `data` is; without that it has no body. */
  readonly answer: readonly [status: number, data?: z.ZodType];
  /** In addition to those that every such route has. */
  readonly problems?: readonly ProblemCode[];
}

export type Name = `${Route["method"]} /auth/${string}`;
type Handle = Route<Principal>["handle"];

/** Makes a route that needs no token. @param name its method and path, and its row in the limits table */
export function openRoute<Caller>(
  name: Name,
  { operationId, summary, body, answer: [status, data], problems = [] }: Described,
  serve: Pick<Route<Caller>, "identify" | "handle">,
): Route<Caller> & { readonly describe: RouteDescription } {
  const [method, path] = name.split(" ") as [Route["method"], string];
  const content = data && { schema: z.strictObject({ data, meta }) };
  const describe: RouteDescription = {
    operationId,
    summary,
    tag: "Accounts",
    ...(body && { body: { schema: body } }),
    answers: [content === undefined ? { status } : { status, content }],
    problems: ["UNAUTHENTICATED", ...(body ? BODY : []), ...problems, ...ALWAYS],
  };
  return { method, path, limit: name, describe, ...serve };
}

/** Makes a route for tokens of a session, also of one that may only read. */
export const ownRoute = (deps: AccountsDeps, name: Name, described: Described, handle: Handle): Route<Principal> => ({
  ...tokenRoute(deps, name, described, handle),
  access: "read",
});

/** Makes a route for tokens that own every key, with a fresh second factor. */
export function adminRoute(deps: AccountsDeps, name: Name, described: Described, handle: Handle): Route<Principal> {
  const problems: readonly ProblemCode[] = ["NOT_FOUND", "STEP_UP_REQUIRED", ...(described.problems ?? [])];
  const route = tokenRoute(deps, name, { ...described, problems }, handle);
  return { ...route, describe: { ...route.describe, params } };
}

function tokenRoute(deps: AccountsDeps, name: Name, described: Described, handle: Handle) {
  const route = openRoute<Principal>(name, described, { identify: identifyOwner(deps), handle });
  return { ...route, describe: { ...route.describe, security: "access token" as const } };
}
