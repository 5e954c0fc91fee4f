/** One operation of the OpenAPI document, out of a route's description of itself, and the schemas that it names. */
import { type ProblemCode, PROBLEMS } from "../../model/problem.ts";
import type { AnswerDescription, ContentDescription, Route, RouteDescription, Schema } from "../../ports/route.ts";

export type Described = Pick<Route, "method" | "path" | "describe">;

const PROBLEM = { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } };

/** A path as OpenAPI can write it. */
export const shownPath = (path: string): string => path.replace("{*}", "{path}");

export function pathItem({ method, path, describe }: Described, schemas: SchemaCollection): Json {
  const shown = shownPath(path);
  if (describe === undefined) return undescribed(method, shown);
  const { operationId, summary, description, tag, security, params, query, headers, body, bodyOptional } = describe;
  const contents = body === undefined ? [] : [body].flat();
  return {
    operationId: operationId ?? madeId(method, shown),
    summary,
    description,
    tags: [tag],
    ...(security !== "access token" && { security: securityOf(security) }),
    parameters: [
      ...pathParameters(shown, params, schemas),
      ...parameters("query", query, schemas),
      ...parameters("header", headers, schemas),
    ],
    ...(contents.length > 0 && {
      requestBody: { required: bodyOptional !== true, content: contentOf(contents, "input", schemas) },
    }),
    responses: responses(describe.answers, describe.problems ?? [], schemas),
  };
}

const undescribed = (method: string, path: string): Json => ({
  operationId: madeId(method, path),
  summary: `${method} ${path}`,
  tags: ["Routes of plug-ins"],
  security: [],
  parameters: pathParameters(path),
  responses: {
    "2XX": { description: "What the route answers." },
    default: { description: "A problem.", content: PROBLEM },
  },
});

function securityOf(security: Exclude<RouteDescription["security"], "access token">): readonly Json[] {
  if (security === undefined) return [];
  return [...(security.optional ? [{}] : []), { [security.name]: [] }];
}

/** Bodies by their content type. */
export function contentOf(all: readonly ContentDescription[], io: "input" | "output", schemas: SchemaCollection): Json {
  return Object.fromEntries(
    all.map(({ type = "application/json", schema, examples }) => [
      type,
      {
        ...(schema && { schema: io === "input" ? schemas.of(schema, io) : schemas.answer(schema) }),
        ...(examples && {
          examples: Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }])),
        }),
      },
    ]),
  );
}

/** A status may stand for an answer and for problems as well: then either body may come. */
function responses(
  answers: readonly AnswerDescription[],
  codes: readonly ProblemCode[],
  schemas: SchemaCollection,
): Json {
  const out: Record<string, { description: string; headers?: Json; content?: Json }> = {};
  for (const { status, description = "Success.", headers, content } of answers) {
    out[status] = {
      description,
      ...(headers && { headers: headersOf(headers, schemas) }),
      ...(content && { content: contentOf([content], "output", schemas) }),
    };
  }
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set(codes)) {
    const status = PROBLEMS[code][0];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  for (const [status, all] of byStatus) {
    const said = all.map((code) => `\`${code}\`: ${PROBLEMS[code][1]}.`).join(" ");
    const own = out[status];
    out[status] = {
      ...own,
      description: own === undefined ? said : `${said} ${own.description}`,
      content: { ...PROBLEM, ...own?.content },
    };
  }
  return out;
}

const properties = (schema: Schema, io: "input" | "output", schemas: SchemaCollection): readonly [string, Json][] =>
  Object.entries((schemas.of(schema, io)["properties"] ?? {}) as Record<string, Json>);

const headersOf = (schema: Schema, schemas: SchemaCollection): Json =>
  Object.fromEntries(properties(schema, "output", schemas).map(([name, one]) => [name, { schema: one }]));

function pathParameters(path: string, known?: Schema, schemas?: SchemaCollection): readonly Json[] {
  const described = new Map(known === undefined ? [] : properties(known, "input", schemas as SchemaCollection));
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: described.get(name) ?? { type: "string" },
  }));
}

/** The properties of an object as parameters. */
export function parameters(
  where: "query" | "header",
  schema: Schema | undefined,
  schemas: SchemaCollection,
): readonly Json[] {
  if (schema === undefined) return [];
  const required = (schemas.of(schema, "input")["required"] ?? []) as readonly string[];
  return properties(schema, "input", schemas).map(([name, one]) => ({
    name,
    in: where,
    required: required.includes(name),
    schema: one,
  }));
}

/** `POST /api-keys/{keyId}/webhooks` → `postApiKeysKeyIdWebhooks`: stable, and unique as the pair is. */
const madeId = (method: string, path: string): string => method.toLowerCase() + joined(path);

/** `order.paid` → `OrderPaid`, as far as it begins with what is neither letter nor digit. */
export const joined = (text: string): string =>
  text.replaceAll(/[^A-Za-z0-9]+(\w)?/g, (_, first: string | undefined) => (first ?? "").toUpperCase());

export type Json = Readonly<Record<string, unknown>>;

export interface SchemaCollection {
  /** The named schemas met so far, by the names that they have in the document. */
  readonly components: Json;
  /** Returns the schema as the document has it. Named schemas in it become references. */
  of(schema: Schema, io: "input" | "output"): Json;
  /** The same of an answer: an envelope is named after what is in it, `OrderEnvelope`, `EventPage`, `SubscriptionList`. */
  answer(schema: Schema): Json;
}

const DEFINITIONS = "#/$defs/";
const COMPONENTS = "#/components/schemas/";

/** Different schemas of one name all keep their place: the second one and later ones get a number behind the name. */
export function collectSchemas(): SchemaCollection {
  const components: Record<string, unknown> = {};
  const texts = new Map<string, string>();

  function nameFor(name: string, definition: unknown): string {
    const text = JSON.stringify(definition);
    let free = name;
    for (let i = 2; texts.has(free) && texts.get(free) !== text; i++) free = `${name}${i}`;
    texts.set(free, text);
    return free;
  }

  return {
    components,
    of(schema, io) {
      const options = { target: "draft-2020-12", libraryOptions: { unrepresentable: "any" } } as const;
      const { $schema: _schema, $defs = {}, ...rest } = schema["~standard"].jsonSchema[io](options);
      const definitions = Object.entries($defs as Json);
      const names = new Map(definitions.map(([name, one]) => [name, nameFor(name, one)]));
      for (const [name, one] of definitions) components[names.get(name) as string] = tidied(one, names);
      return tidied(rest, names) as Json;
    },
    answer(schema) {
      const shown = this.of(schema, "output");
      const wanted = envelopeName(shown);
      if (wanted === undefined) return shown;
      const name = nameFor(wanted, shown);
      components[name] = shown;
      return { $ref: COMPONENTS + name };
    },
  };
}

function envelopeName({ properties = {} }: Json): string | undefined {
  const { data, meta, ...more } = properties as Readonly<Record<string, Json>>;
  if (data === undefined || meta === undefined || Object.keys(more).length > 0) return undefined;
  const { $ref = (data["items"] as Json | undefined)?.["$ref"] } = data;
  const list = meta["$ref"] === `${COMPONENTS}PageMeta` ? "Page" : "List";
  return typeof $ref === "string" ? `${$ref.slice(COMPONENTS.length)}${data.$ref ? "Envelope" : list}` : undefined;
}

/**
 * Leaves out what tells nothing: the pattern of a format, the range of safe integers. `true` alone is said by what it is not:
 * generators of code take a constant for a text.
 */
function tidied(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((one) => tidied(one, names));
  if (typeof value !== "object" || value === null) return value;
  const { format } = value as Json;
  const entries = Object.entries(value).filter(
    ([name, one]) =>
      !(name === "pattern" && format === "date-time") &&
      !(name === "minimum" && one === Number.MIN_SAFE_INTEGER) &&
      !(name === "maximum" && one === Number.MAX_SAFE_INTEGER),
  );
  return Object.fromEntries(
    entries.map(([name, one]) => {
      if (name === "const" && typeof one === "boolean") return ["not", { enum: [!one] }];
      const leads = name === "$ref" && typeof one === "string" && one.startsWith(DEFINITIONS);
      return [name, leads ? COMPONENTS + (names.get(one.slice(DEFINITIONS.length)) ?? "") : tidied(one, names)];
    }),
  );
}
