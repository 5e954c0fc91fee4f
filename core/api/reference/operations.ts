/** Operations of the management API, described as routes are. */
import { z } from "zod";
import type { ProblemCode } from "../../model/problem.ts";
import type { AnswerDescription, RouteDescription } from "../../ports/route.ts";
import type { AnyOperation } from "../http/operation.ts";
import { pathParameters } from "../resources/schemas.ts";

/** What every operation can answer with, whatever it does. */
const ALWAYS: readonly ProblemCode[] = [
  "UNAUTHENTICATED",
  "NOT_FOUND",
  "NOT_ACCEPTABLE",
  "ABUSE_SUSPEND",
  "RATE_LIMIT_EXCEEDED",
  "BURST_EXCEEDED",
  "INTERNAL_ERROR",
  "STORAGE_UNAVAILABLE",
  "STORAGE_FULL",
];
const WITH_BODY: readonly ProblemCode[] = [
  "INVALID_JSON",
  "VALIDATION_FAILED",
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  // There is no room for it.
  "PROVIDER_BACKPRESSURE",
];

const timestamp = z.iso.datetime();
const meta = z.strictObject({ timestamp });
const pagedMeta = z.strictObject({
  timestamp,
  nextCursor: z.string().optional().meta({ description: "Where the next page begins, while there is more." }),
  searchedTo: timestamp.optional().meta({
    description:
      "How far back the page has looked, in a list of events: a page may be empty and still have a next one.",
  }),
});

const warnedMeta = z.strictObject({
  timestamp,
  warnings: z.array(z.string()).optional().meta({ description: "What you may not have meant." }),
});

export function describeOperation(operation: AnyOperation): RouteDescription {
  const { summary, tag, body, bodyOptional, query, reply, problems = [] } = operation;
  const more = body ? WITH_BODY : query ? (["VALIDATION_FAILED"] as const) : [];
  return {
    summary,
    tag,
    security: "access token",
    params: pathParameters,
    ...(query && { query }),
    ...(body && { body: { schema: body }, bodyOptional: bodyOptional === true }),
    answers: [success(reply)],
    problems: [...ALWAYS, ...more, ...problems],
  };
}

function success({ status, data, paged, warns, type }: AnyOperation["reply"]): AnswerDescription {
  if (type !== undefined) return { status, description: "A stream.", content: { type, schema: z.string() } };
  if (data === undefined) return { status, description: "Done." };
  return { status, content: { schema: z.strictObject({ data, meta: paged ? pagedMeta : warns ? warnedMeta : meta }) } };
}
