/** The OpenAPI 3.1 document, made from the very schemas that validate. */
import type { z } from "zod";
import { PROBLEMS } from "../../model/problem.ts";
import type { ProblemCode } from "../../model/problem.ts";
import type { Route } from "../../ports/plugin.ts";
import { accountRoutes } from "./accounts.ts";
import type { AnyOperation } from "../http/operation.ts";
import { gatewayRoute } from "../gateway/described.ts";
import { jsonSchema } from "./json-schema.ts";
import { publishing } from "./publishing.ts";
import type { KnownRoute } from "./publishing.ts";
import { problem } from "../resources/shapes.ts";

type Json = Readonly<Record<string, unknown>>;

export interface DocumentDeps {
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins: listed, and described where they are known. */
  readonly routes: readonly Route[];
  readonly version: string;
  /** In which clients of `/v1` send their key. @default "X-API-Key" */
  readonly keyHeader?: string | undefined;
}

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
];

export function openApiDocument({ operations, routes, version, keyHeader = "X-API-Key" }: DocumentDeps): Json {
  const schemas: Record<string, unknown> = {};
  const shape = (schema: z.ZodType, io: "input" | "output"): Json => jsonSchema(schema, io, schemas);
  const paths: Record<string, Record<string, unknown>> = {};
  const used = new Set(["bearer"]);
  const add = (method: string, path: string, item: Json): void => {
    (paths[path] ??= {})[method.toLowerCase()] = item;
    for (const one of (item["security"] ?? []) as readonly Json[]) for (const name in one) used.add(name);
  };

  shape(problem, "output");
  for (const one of operations) add(one.method, one.path, describeOperation(one, shape));
  for (const route of routes) add(route.method, shown(route.path), describeRoute(route, shape));

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
    components: {
      schemas,
      securitySchemes: Object.fromEntries(Object.entries(schemes(keyHeader)).filter(([name]) => used.has(name))),
    },
  };
}

const schemes = (keyHeader: string): Json => ({
  bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An access token." },
  publish: { type: "http", scheme: "bearer", description: "A publish token." },
  apiKey: {
    type: "apiKey",
    in: "header",
    name: keyHeader,
    description: "The key that the upstream asks for: the relay counts by it and checks nothing.",
  },
  check: { type: "http", scheme: "bearer", description: "The token of `limits.check`." },
});

/** A path as OpenAPI can write it. */
const shown = (path: string): string => path.replace("{*}", "{path}");

type Shape = (schema: z.ZodType, io: "input" | "output") => Json;

function describeOperation(spec: AnyOperation, shape: Shape): Json {
  const { summary, tag, body, query, reply, problems = [], bodyOptional } = spec;
  const codes = [...ALWAYS, ...(body ? WITH_BODY : query ? (["VALIDATION_FAILED"] as const) : []), ...problems];
  return {
    operationId: operationId(spec.method, spec.path),
    summary,
    tags: [tag],
    parameters: [...pathParameters(spec.path), ...parameters("query", query, shape)],
    ...(body && {
      requestBody: {
        required: bodyOptional !== true,
        content: { "application/json": { schema: shape(body, "input") } },
      },
    }),
    responses: { [reply.status]: success(reply, shape), ...failures(codes) },
  };
}

function success({ data, paged, type }: AnyOperation["reply"], shape: Shape): Json {
  if (type !== undefined) return { description: "A stream.", content: { [type]: { schema: { type: "string" } } } };
  if (data === undefined) return { description: "Done." };
  const meta = {
    type: "object",
    properties: {
      timestamp: { type: "string", format: "date-time" },
      ...(paged && { nextCursor: { type: "string", description: "Where the next page begins, while there is more." } }),
    },
    required: ["timestamp"],
    additionalProperties: false,
  };
  const schema = {
    type: "object",
    properties: { data: shape(data, "output"), meta },
    required: ["data", "meta"],
    additionalProperties: false,
  };
  return { description: "Success.", content: { "application/json": { schema } } };
}

const PROBLEM = { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } };
const ANYTHING = { "*/*": {} };
/** What an upstream answers of these is told in our words. */
const OURS_ALONE: readonly number[] = [429, 503];

/** @param through an upstream may answer with the same status in its own way */
function failures(codes: readonly ProblemCode[], through = false): Json {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set(codes)) {
    const status = PROBLEMS[code][0];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const out: Record<string, unknown> = {};
  for (const [status, all] of byStatus) {
    const content = { ...PROBLEM, ...(through && !OURS_ALONE.includes(status) && ANYTHING) };
    out[status] = { description: all.map((code) => `\`${code}\`: ${PROBLEMS[code][1]}.`).join(" "), content };
  }
  return out;
}

/** A plug-in's route has no schema of ours, but for those that the contract with publishers and probes fixes. */
function describeRoute({ method, path }: Route, shape: Shape): Json {
  const known = publishing[`${method} ${path}`] ?? accountRoutes[`${method} ${path}`] ?? gatewayRoute(path);
  const operation = operationId(method, shown(path));
  if (known === undefined) {
    return {
      operationId: operation,
      parameters: pathParameters(path),
      summary: `${method} ${path}`,
      tags: ["Routes of plug-ins"],
      security: [],
      responses: {
        "2XX": { description: "What the route answers." },
        default: { description: "A problem.", content: PROBLEM },
      },
    };
  }
  const { summary, tag, security, query, headers, problems, through } = known;
  return {
    operationId: operation,
    parameters: [
      ...pathParameters(shown(path)),
      ...parameters("query", query, shape),
      ...parameters("header", headers, shape),
    ],
    summary,
    tags: [tag],
    security,
    ...requestBody(known, method, shape),
    responses: { ...replies(known, shape), ...failures(problems, through) },
  };
}

function requestBody({ body, through }: KnownRoute, method: Route["method"], shape: Shape): Json {
  if (body !== undefined)
    return { requestBody: { required: true, content: { "application/json": { schema: shape(body, "input") } } } };
  return through && method !== "GET" ? { requestBody: { required: false, content: ANYTHING } } : {};
}

function replies({ replies: own, type = "application/json", through, says }: KnownRoute, shape: Shape): Json {
  if (through) return { default: { description: "The upstream's own answer, whatever it is.", content: ANYTHING } };
  const contentOf = (schema: z.ZodType): Json => ({ content: { [type]: { schema: shape(schema, "output") } } });
  const headers = Object.entries(says ?? {}).map(([name, schema]) => [name, { schema: shape(schema, "output") }]);
  const said = headers.length > 0 ? { headers: Object.fromEntries(headers) } : {};
  return Object.fromEntries(
    own.map(([status, schema]) => [status, { description: "Answer.", ...said, ...(schema && contentOf(schema)) }]),
  );
}

const pathParameters = (path: string): readonly Json[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));

function parameters(where: "query" | "header", schema: z.ZodType | undefined, shape: Shape): readonly Json[] {
  const properties = schema === undefined ? {} : ((shape(schema, "input")["properties"] ?? {}) as Record<string, Json>);
  return Object.entries(properties).map(([name, one]) => ({ name, in: where, required: false, schema: one }));
}

/** `POST /api-keys/{keyId}/webhooks` → `postApiKeysKeyIdWebhooks`: stable, and unique as the pair is. */
const operationId = (method: string, path: string): string =>
  method.toLowerCase() +
  path.replaceAll(/[^A-Za-z0-9]+(\w)?/g, (_, first: string | undefined) => (first ?? "").toUpperCase());

/** `/openapi.json`: made at the first question, since most starts never get one. */
export function openApiRoutes(deps: DocumentDeps): readonly Route[] {
  let text: string | undefined;
  return [
    {
      method: "GET",
      path: "/openapi.json",
      async handle() {
        text ??= JSON.stringify(openApiDocument(deps));
        return { status: 200, body: text };
      },
    },
  ];
}
