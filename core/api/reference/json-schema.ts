/** JSON Schema out of the schemas that validate, with the named ones collected as components. */
import type { Schema } from "../../ports/route.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface SchemaCollection {
  /** The named schemas met so far, by the names that they have in the document. */
  readonly components: Json;
  /** Returns the schema as the document has it. Named schemas in it become references. */
  of(schema: Schema, io: "input" | "output"): Json;
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
  };
}

/**
 * Leaves out what tells a reader nothing: the pattern of a format, the range of every safe integer. References lead to
 * components.
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
    entries.map(([name, one]) => [
      name,
      name === "$ref" && typeof one === "string" && one.startsWith(DEFINITIONS)
        ? COMPONENTS + (names.get(one.slice(DEFINITIONS.length)) ?? "")
        : tidied(one, names),
    ]),
  );
}
