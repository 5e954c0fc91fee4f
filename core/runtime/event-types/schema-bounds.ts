/**
 * Finds what bounds the time that a schema may take on data that a publisher chose: no reference leads out of it or in a
 * circle, and written out it is of bounded size. Then each value of the data meets each of its parts once at most.
 */

/** Most parts of a schema with its references written out. */
const MOST_PARTS = 10_000;
const DEEPEST = 64;

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = new Set([
  ...["additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"],
  ...["unevaluatedItems", "unevaluatedProperties"],
]);
const LIST = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
const BY_NAME = new Set(["properties", "patternProperties", "dependentSchemas"]);
const DEFINITIONS = new Set(["$defs", "definitions"]);
const REFUSED: Readonly<Record<string, string>> = {
  $dynamicRef: "is not supported",
  $dynamicAnchor: "is not supported",
  $recursiveRef: "is not supported",
  $anchor: "is not supported: refer to #/$defs/…",
  $vocabulary: "is not supported",
  $async: "is not supported",
  nullable: "is no keyword of JSON Schema 2020-12: list null among the types",
};
const DIALECT = /^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/;

type Path = readonly PropertyKey[];

/** Says what is wrong with a schema, and where in it. */
export class SchemaFault extends Error {
  readonly path: Path;
  constructor(path: Path, message: string) {
    super(message);
    this.path = path;
  }
}

/** Names of keywords that begin with `x-`: they say nothing to the validator. */
type Extensions = ReadonlySet<string>;

/** @returns its extension keywords. @throws SchemaFault */
export function checkBounds(root: unknown): Extensions {
  const extensions = new Set<string>();
  /** Parts of each schema that was walked, by the schema. */
  const sizes = new Map<object, number>();
  const under = new Set<object>();

  /** Returns the number of parts of a schema with its references written out. */
  function parts(schema: unknown, path: Path): number {
    if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return 1;
    const known = sizes.get(schema);
    if (known !== undefined) return known;
    if (under.has(schema)) throw new SchemaFault(path, "refers to itself: data of any depth is not supported");
    if (path.length > DEEPEST * 2) throw new SchemaFault(path.slice(0, 8), `nests deeper than ${DEEPEST} levels`);
    under.add(schema);
    let size = 1;
    for (const [word, value] of Object.entries(schema)) size += ofKeyword(word, value, [...path, word]);
    under.delete(schema);
    if (size > MOST_PARTS)
      throw new SchemaFault(path, `has more than ${MOST_PARTS} parts with its references written out`);
    sizes.set(schema, size);
    return size;
  }

  function ofKeyword(word: string, value: unknown, path: Path): number {
    const refused = Object.hasOwn(REFUSED, word) ? REFUSED[word] : undefined;
    if (refused !== undefined) throw new SchemaFault(path, refused);
    if (word.startsWith("x-")) extensions.add(word);
    if (word === "$schema" && !DIALECT.test(String(value)))
      throw new SchemaFault(path, "must be https://json-schema.org/draft/2020-12/schema");
    if (word === "$id" && path.length > 1) throw new SchemaFault(path, "may stand at the top only");
    if (word === "$ref") return 1 + parts(target(value, path), path);
    if (ONE.has(word)) return parts(value, path);
    if (LIST.has(word) && Array.isArray(value)) {
      return value.reduce((sum: number, one, i) => sum + parts(one, [...path, i]), 1);
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) return 1;
    // The validator leaves that name out, and would so let anything pass there.
    if (BY_NAME.has(word) && Object.hasOwn(value, "__proto__"))
      throw new SchemaFault([...path, "__proto__"], "is a name that is not supported");
    const named = Object.entries(value);
    if (BY_NAME.has(word)) return named.reduce((sum, [name, one]) => sum + parts(one, [...path, name]), 1);
    // A definition that nobody refers to takes no time, but it must be sound.
    if (DEFINITIONS.has(word)) for (const [name, one] of named) parts(one, [...path, name]);
    return 1;
  }

  function target(ref: unknown, path: Path): unknown {
    if (typeof ref !== "string") throw new SchemaFault(path, "must be text");
    if (ref !== "#" && !ref.startsWith("#/"))
      throw new SchemaFault(path, "must refer to a place in the schema itself, such as #/$defs/money");
    let at: unknown = root;
    for (const part of ref.split("/").slice(1)) {
      const name = decoded(part, path).replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof at !== "object" || at === null || !Object.hasOwn(at, name))
        throw new SchemaFault(path, "refers to a place that is not there");
      at = (at as Readonly<Record<string, unknown>>)[name];
    }
    return at;
  }

  if (typeof root !== "boolean" && (typeof root !== "object" || root === null || Array.isArray(root)))
    throw new SchemaFault([], "must be a JSON Schema: an object, true or false");
  parts(root, []);
  return extensions;
}

function decoded(part: string, path: Path): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new SchemaFault(path, "is no reference");
  }
}
