/** The OpenAPI 3.1 document, made from the very schemas that validate. */
import { z } from "zod";
import { PROBLEMS } from "../model/problem.ts";
import type { ProblemCode } from "../model/problem.ts";
import type { Route } from "../ports/plugin.ts";
import { accountRoutes } from "./accounts.ts";
import type { AnyOperation } from "./endpoint.ts";
import { publishing } from "./publishing.ts";
import { problem } from "./shapes.ts";

type Json = Readonly<Record<string, unknown>>;

export interface DocumentDeps {
  readonly operations: readonly AnyOperation[];
  /** Routes of plug-ins: listed, and described where they are known. */
  readonly routes: readonly Route[];
  readonly version: string;
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

export function openApiDocument({ operations, routes, version }: DocumentDeps): Json {
  const schemas: Record<string, unknown> = {};
  const shape = (schema: z.ZodType, io: "input" | "output"): Json => jsonSchema(schema, io, schemas);
  const paths: Record<string, Record<string, unknown>> = {};
  const add = (method: string, path: string, item: Json): void => {
    (paths[path] ??= {})[method.toLowerCase()] = item;
  };

  shape(problem, "output");
  for (const one of operations) add(one.method, one.path, describeOperation(one, shape));
  for (const route of routes) add(route.method, route.path, describeRoute(route, shape));

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
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An access token." },
        publish: { type: "http", scheme: "bearer", description: "A publish token." },
      },
    },
  };
}

type Shape = (schema: z.ZodType, io: "input" | "output") => Json;

function describeOperation(spec: AnyOperation, shape: Shape): Json {
  const { summary, tag, body, query, reply, problems = [], bodyOptional } = spec;
  const codes = [...ALWAYS, ...(body ? WITH_BODY : query ? (["VALIDATION_FAILED"] as const) : []), ...problems];
  return {
    operationId: operationId(spec.method, spec.path),
    summary,
    tags: [tag],
    parameters: [...pathParameters(spec.path), ...(query ? queryParameters(shape(query, "input")) : [])],
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

function failures(codes: readonly ProblemCode[]): Json {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set(codes)) {
    const status = PROBLEMS[code][0];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const out: Record<string, unknown> = {};
  for (const [status, all] of byStatus) {
    const content = { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } };
    out[status] = { description: all.map((code) => `\`${code}\`: ${PROBLEMS[code][1]}.`).join(" "), content };
  }
  return out;
}

/** A plug-in's route has no schema of ours, but for those that the contract with publishers and probes fixes. */
function describeRoute({ method, path }: Route, shape: Shape): Json {
  const known = publishing[`${method} ${path}`] ?? accountRoutes[`${method} ${path}`];
  const head = { operationId: operationId(method, path), parameters: pathParameters(path) };
  if (known === undefined) {
    const body = { description: "What the route answers." };
    const failed = { content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } } };
    return {
      ...head,
      summary: `${method} ${path}`,
      tags: ["Routes of plug-ins"],
      security: [],
      responses: { "2XX": body, default: { description: "A problem.", ...failed } },
    };
  }
  const { summary, tag, security, body, replies, problems, type = "application/json" } = known;
  const schemaOf = (schema: z.ZodType): Json => ({ content: { [type]: { schema: shape(schema, "output") } } });
  return {
    ...head,
    summary,
    tags: [tag],
    security,
    ...(body && {
      requestBody: { required: true, content: { "application/json": { schema: shape(body, "input") } } },
    }),
    responses: {
      ...Object.fromEntries(
        replies.map(([status, schema]) => [status, { description: "Answer.", ...(schema && schemaOf(schema)) }]),
      ),
      ...failures(problems),
    },
  };
}

const pathParameters = (path: string): readonly Json[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));

function queryParameters(schema: Json): readonly Json[] {
  const properties = (schema["properties"] ?? {}) as Record<string, Json>;
  return Object.entries(properties).map(([name, one]) => ({ name, in: "query", required: false, schema: one }));
}

/** `POST /api-keys/{keyId}/webhooks` → `postApiKeysKeyIdWebhooks`: stable, and unique as the pair is. */
const operationId = (method: string, path: string): string =>
  method.toLowerCase() +
  path.replaceAll(/[^A-Za-z0-9]+(\w)?/g, (_, first: string | undefined) => (first ?? "").toUpperCase());

/** Schemas with an id go to the components, once; what is not of JSON Schema or mere noise is left out. */
function jsonSchema(schema: z.ZodType, io: "input" | "output", components: Record<string, unknown>): Json {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ jsonSchema: one }) => {
      if (one.format === "date-time") delete one.pattern;
      if (one.minimum === Number.MIN_SAFE_INTEGER) delete one.minimum;
      if (one.maximum === Number.MAX_SAFE_INTEGER) delete one.maximum;
    },
  });
  const { $schema: _schema, $defs = {}, ...rest } = relinked(made) as Record<string, unknown>;
  for (const [name, definition] of Object.entries($defs as Json)) components[name] ??= definition;
  return rest;
}

function relinked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(relinked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      name === "$ref" && typeof one === "string" ? one.replace("#/$defs/", "#/components/schemas/") : relinked(one),
    ]),
  );
}

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
