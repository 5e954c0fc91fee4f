/** The OpenAPI 3.1 document, put together from what operations and routes say of themselves. */
import { z } from "zod";
import type { EventTypes } from "../../model/event-type.ts";
import type { RepeatedHeaders } from "../../model/header-names.ts";
import type { ProblemCode } from "../../model/problem.ts";
import type { AnswerDescription, Route, RouteDescription, SecurityScheme } from "../../ports/route.ts";
import type { AnyOperation } from "../http/operation.ts";
import { neededAccess, type Guarded } from "../http/stations.ts";
import { meta, note } from "../resources/fields.ts";
import { collectSchemas, type Described, type Json, pathItem, shownPath } from "./paths.ts";
import { callback, createWebhookIds, OPERATIONAL_EVENTS, typedWebhooks, webhooks } from "./webhooks.ts";

interface DocumentDeps {
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins and of the relay itself: one without a description is listed by its path. */
  readonly routes: readonly Route[];
  /** Called for a route whose description cannot be read; it is listed by its path then. @default it throws */
  readonly undescribable?: (route: Pick<Route, "method" | "path">, error: unknown) => void;
  readonly version: string;
  /** Returns what the config says of the event types now; the same object until it changes. */
  readonly types?: (() => EventTypes | undefined) | undefined;
  /** Headers that deliveries have a second time, under a name of the config. */
  readonly repeated?: RepeatedHeaders;
}

const problem = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string(),
    errors: z
      .array(z.strictObject({ path: z.string(), message: z.string(), reason: z.string().optional() }))
      .optional(),
    retryAfter: z.int().min(1).optional(),
  })
  .meta({ id: "Problem" });

/** Asked for by every operation, and by routes that say so. */
const ACCESS_TOKEN = { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An access token." };

export function openApiDocument(deps: DocumentDeps): Json {
  const { operations, routes, undescribable, version, types, repeated = {} } = deps;
  const schemas = collectSchemas();
  schemas.of(problem, "output");
  const paths: Record<string, Record<string, unknown>> = {};
  const schemes: Record<string, Json> = {};
  const add = (one: Described, item: Json): void =>
    void ((paths[shownPath(one.path)] ??= {})[one.method.toLowerCase()] = item);
  for (const one of operations) {
    const item = pathItem(withForbidden(one, describeOperation(one), one.portal !== true), schemas);
    add(one, one.id === "createSubscription" ? { ...item, callbacks: callback(schemas) } : item);
  }
  for (const one of routes) {
    try {
      const described = withForbidden(one, one.describe, false);
      const item = pathItem(described, schemas);
      const security = described.describe?.security;
      const scheme =
        security === undefined || security === "access token" ? {} : { [security.name]: schemeOf(security) };
      // A description that is no JSON fails here, where its owner is known.
      JSON.stringify([item, scheme]);
      add(one, item);
      Object.assign(schemes, scheme);
    } catch (error) {
      if (undescribable === undefined) throw error;
      undescribable(one, error);
      add(one, pathItem({ method: one.method, path: one.path }, schemas));
    }
  }
  const webhookId = createWebhookIds();
  return {
    openapi: "3.1.0",
    info: {
      title: "Relay",
      version,
      summary: "Webhook subscriptions, events and their deliveries.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths,
    webhooks: {
      ...webhooks(schemas, repeated),
      ...typedWebhooks(types?.() ?? {}, webhookId),
      ...typedWebhooks(OPERATIONAL_EVENTS, webhookId, "Operational events"),
    },
    components: { schemas: schemas.components, securitySchemes: { ...schemes, bearer: ACCESS_TOKEN } },
  };
}

/** Adds what the server answers in a route's place, to a caller who may only read or came by a portal link. */
function withForbidden(one: Described & Guarded, describe: Described["describe"], closed: boolean): Described {
  const { method, path } = one;
  const guarded = describe?.security === "access token" && (closed || neededAccess(one) === "manage");
  return {
    method,
    path,
    describe: guarded ? { ...describe, problems: [...(describe.problems ?? []), "FORBIDDEN"] } : describe,
  };
}

const schemeOf = ({ header, description }: SecurityScheme): Json =>
  header === undefined
    ? { type: "http", scheme: "bearer", description }
    : { type: "apiKey", in: "header", name: header, description };

/** The codes that every operation can answer with, whatever it does. */
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
const pagedMeta = z
  .strictObject({
    timestamp,
    nextCursor: note(z.string().optional(), "Where the next page begins, while there is more."),
    searchedTo: note(
      timestamp.optional(),
      "How far back the page has looked, in a list of events: a page may be empty and still have a next one.",
    ),
  })
  .meta({ id: "PageMeta" });
const warnedMeta = z
  .strictObject({ timestamp, warnings: note(z.array(z.string()).optional(), "What you may not have meant.") })
  .meta({ id: "WarnedMeta" });

const id = (pattern: RegExp, example: string) =>
  z
    .string()
    .regex(pattern)
    .meta({ examples: [example] });
/** Parameters of paths. What does not fit is not found, like everything else that is not there. */
const pathParameters = z.object({
  keyId: id(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/, "key_1"),
  subscriptionId: z
    .string()
    .max(64)
    .meta({ examples: ["sub_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"] }),
  eventId: id(/^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/, "evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C"),
  eventType: z
    .string()
    .max(128)
    .meta({ examples: ["deposit:paid"] }),
});

/** Describes an operation of the management API as a route is. */
function describeOperation(operation: AnyOperation): RouteDescription {
  const { id: operationId, summary, tag, body, bodyOptional, query, reply, problems = [] } = operation;
  const more = body ? WITH_BODY : query ? (["VALIDATION_FAILED"] as const) : [];
  return {
    operationId,
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

/** `/openapi.json`: made when it is first asked for, since most relays are never asked, and again for other event types. */
export function openApiRoutes(deps: DocumentDeps): readonly Route[] {
  // Bytes are shared by all answers under way, where each would join a text to a copy of its own.
  let text: Buffer | undefined;
  let made: EventTypes | undefined;
  return [
    {
      method: "GET",
      path: "/openapi.json",
      async handle() {
        const types = deps.types?.();
        if (types !== made) text = undefined;
        made = types;
        text ??= Buffer.from(JSON.stringify(openApiDocument(deps)));
        return { status: 200, body: text };
      },
    },
  ];
}
