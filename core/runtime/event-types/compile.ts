/** Compiles the schemas of event types, once for a config, and checks their examples. */
import type { Ajv2020, AnySchema, ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import type { EventTypes, JsonSchema } from "../../model/event-type.ts";
import { checkBounds, SchemaFault } from "./schema-bounds.ts";
import { createValidator } from "./validator.ts";

interface TypeProblem {
  readonly type: string;
  /** `schema`, `example`, or a place in one of them. */
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

interface CompiledTypes {
  /** Problems of each type that cannot be used. */
  readonly problems: readonly TypeProblem[];
  /** Says what is wrong with the data of an event of this type; `undefined` also where the type has no schema. */
  problem(type: string, data: unknown): DataProblem | undefined;
}

export async function compileEventTypes(types: EventTypes): Promise<CompiledTypes> {
  const problems: TypeProblem[] = [];
  const sound: (readonly [string, AnySchema])[] = [];
  const extensions = new Set<string>();
  const note = (type: string, place: "schema" | "example", error: unknown): void => {
    const path = error instanceof SchemaFault ? error.path : [];
    const message = error instanceof Error ? error.message.replace(/^strict mode: /, "") : String(error);
    problems.push({ type, path: [place, ...path], message });
  };
  for (const [type, { schema }] of Object.entries(types)) {
    if (schema === undefined) continue;
    try {
      for (const name of checkBounds(schema)) extensions.add(name);
      sound.push([type, withoutId(schema)]);
    } catch (error) {
      note(type, "schema", error);
    }
  }
  const compiled = new Map<string, ValidateFunction>();
  const ajv = sound.length === 0 ? undefined : await createValidator(extensions);
  for (const [type, schema] of sound) {
    try {
      if (ajv === undefined) continue;
      checkSchema(ajv, schema);
      const validate = ajv.compile(schema);
      compiled.set(type, validate);
      const { example } = types[type] ?? {};
      if (example === undefined) continue;
      const found = problemOf(validate, example, "data");
      if (found !== undefined) note(type, "example", `does not match the schema: ${found.path} ${found.message}`);
    } catch (error) {
      note(type, "schema", error);
    }
  }

  function problemOf(validate: ValidateFunction, data: unknown, at: string): DataProblem | undefined {
    if (validate(data)) return undefined;
    const found = dataProblem(validate.errors, at);
    // A validator holds its last finding, and the data with it.
    validate.errors = null;
    return found;
  }

  return {
    problems,
    problem(type, data) {
      const validate = compiled.get(type);
      return validate === undefined ? undefined : problemOf(validate, data, "data");
    },
  };
}

/** @throws SchemaFault with the first place that no JSON Schema has */
function checkSchema(ajv: Ajv2020, schema: AnySchema): void {
  if (ajv.validateSchema(schema) === true) return;
  const [{ instancePath, keyword, params } = { instancePath: "", keyword: "", params: {} }] = ajv.errors ?? [];
  const types = keyword === "type" ? [(params as { readonly type: string | readonly string[] }).type].flat() : [];
  const what =
    types.length > 0 ? `must be of the type ${types.join(" or ")}` : "is not what JSON Schema 2020-12 allows here";
  throw new SchemaFault(namesIn(instancePath), what);
}

/** Two types may hold a schema of the same name, and nothing refers to it. */
function withoutId(schema: JsonSchema): AnySchema {
  if (typeof schema === "boolean") return schema;
  const { $id: _, $schema: __, ...rest } = schema;
  return rest;
}

interface DataProblem {
  /** Below the data: `data.items[0].sku`. */
  readonly path: string;
  readonly message: string;
}

type Params = Readonly<Record<string, unknown>>;

const LONGEST_PATH = 200;
const LONGEST_MESSAGE = 300;

const TYPES: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  integer: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  null: "null",
};

/** These end in a finding of their own, after those of the parts that they have tried. */
const JUDGES_PARTS: ReadonlySet<string> = new Set(["anyOf", "oneOf", "contains", "propertyNames"]);

/** By keyword. A message of our own keywords stands in the finding itself. */
const SENTENCES: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) => {
    const types = [type].flat().map((one) => TYPES[String(one)] ?? String(one));
    return `must be ${types.join(" or ")}`;
  },
  required: () => "is missing",
  dependentRequired: ({ property }) => `is missing: it goes with ${String(property)}`,
  additionalProperties: () => "is not in the schema",
  unevaluatedProperties: () => "is not in the schema",
  minimum: ({ limit }) => `must be ${String(limit)} or more`,
  maximum: ({ limit }) => `must be ${String(limit)} or less`,
  exclusiveMinimum: ({ limit }) => `must be more than ${String(limit)}`,
  exclusiveMaximum: ({ limit }) => `must be less than ${String(limit)}`,
  multipleOf: ({ multipleOf }) => `must be a multiple of ${String(multipleOf)}`,
  minLength: ({ limit }) => `must have ${String(limit)} characters or more`,
  maxLength: ({ limit }) => `must have ${String(limit)} characters or fewer`,
  pattern: ({ pattern }) => `must match the pattern ${String(pattern)}`,
  minItems: ({ limit }) => `must have ${String(limit)} items or more`,
  maxItems: ({ limit }) => `must have ${String(limit)} items or fewer`,
  unevaluatedItems: ({ len }) => `must have ${String(len)} items or fewer`,
  items: ({ limit }) => `must have ${String(limit)} items or fewer`,
  minProperties: ({ limit }) => `must have ${String(limit)} members or more`,
  maxProperties: ({ limit }) => `must have ${String(limit)} members or fewer`,
  contains: () => "does not contain the items that the schema asks for",
  propertyNames: ({ propertyName }) => `has a member whose name the schema does not allow: ${String(propertyName)}`,
  anyOf: () => "matches none of the schemas that it may have",
  oneOf: ({ passingSchemas }) =>
    passingSchemas === null
      ? "matches none of the schemas that it may have"
      : "matches more than one of the schemas that it may have",
  not: () => "is what the schema rules out",
  "false schema": () => "is not allowed by the schema",
};

/** @param at what the data is called */
function dataProblem(errors: readonly ErrorObject[] | null | undefined, at: string): DataProblem {
  const error = errors?.findLast(({ keyword }) => JUDGES_PARTS.has(keyword)) ?? errors?.[0];
  if (error === undefined) return { path: at, message: "does not match the schema" };
  const { instancePath, keyword, message = "does not match the schema" } = error;
  const params = error.params as Params;
  const member = params["missingProperty"] ?? params["additionalProperty"] ?? params["unevaluatedProperty"];
  let path = at;
  for (const name of namesIn(instancePath)) path += /^\d+$/.test(name) ? `[${name}]` : `.${name}`;
  if (typeof member === "string") path += `.${member}`;
  const sentence = SENTENCES[keyword]?.(params) ?? message;
  return { path: short(path, LONGEST_PATH), message: short(sentence, LONGEST_MESSAGE) };
}

const namesIn = (pointer: string): readonly string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));

const short = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
