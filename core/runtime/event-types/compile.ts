/** Compiles the schemas of event types, once for a config, and checks their examples. */
import type { Ajv2020, AnySchema, ValidateFunction } from "ajv/dist/2020.js";
import type { EventTypes, JsonSchema } from "../../model/event-type.ts";
import { dataProblem, namesIn, type DataProblem } from "./data-problem.ts";
import { checkBounds, SchemaFault } from "./schema-bounds.ts";
import { createValidator } from "./validator.ts";

interface TypeProblem {
  readonly type: string;
  /** `schema`, `example`, or a place in one of them. */
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

interface CompiledTypes {
  /** What is wrong with each type that cannot be used. */
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
