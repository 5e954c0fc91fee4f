/** JSON Schema, as far as our document uses it: checks values against schemas, and makes values from them. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

export type Schema = Readonly<Record<string, unknown>>;

const ajv = new Ajv2020({ strict: false, strictSchema: true, allErrors: true });
ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
ajv.addVocabulary(["components"]);
const judges = new WeakMap<Schema, ValidateFunction>();

/** Says in words what is wrong with a value; nothing when it fits. @throws Error for a keyword that nobody knows */
export function misfits(schema: Schema, value: unknown, components: Schema): readonly string[] {
  let judge = judges.get(schema);
  // References lead into the document: its components are put beside the schema.
  if (judge === undefined)
    judges.set(schema, (judge = ajv.compile({ ...schema, components: { schemas: components } })));
  return judge(value) ? [] : (judge.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** Random numbers that a seed repeats (mulberry32). */
export function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const JUNK: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  "",
  "x",
  "\u0000",
  "\ud800",
  "💥",
  "a".repeat(5_000),
  [],
  {},
  [[[]]],
  { __proto__: null, constructor: 1 },
  "https://[::1",
  "../../etc",
  "Infinity",
];

/** A value that mostly fits, and now and then does not at all. */
export function invent(schema: Schema, components: Schema, random: () => number): unknown {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  if (random() < 0.08) return pick(JUNK);
  if (schema["$ref"] !== undefined)
    return invent(components[(schema["$ref"] as string).split("/").at(-1) ?? ""] as Schema, components, random);
  if (schema["anyOf"] !== undefined) return invent(pick(schema["anyOf"] as Schema[]), components, random);
  if (schema["const"] !== undefined) return schema["const"];
  if (schema["enum"] !== undefined) return pick(schema["enum"] as unknown[]);
  if (schema["examples"] !== undefined && random() < 0.8) return pick(schema["examples"] as unknown[]);
  if (schema["format"] === "date-time") return new Date(1.76e12 + Math.floor(random() * 1e11)).toISOString();
  switch (schema["type"]) {
    case "object": {
      const out: Record<string, unknown> = {};
      const required = (schema["required"] ?? []) as string[];
      const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Schema>);
      // About two optional ones at most, so that some objects with many are all right.
      const optional = Math.min(0.4, 2 / Math.max(1, properties.length - required.length));
      for (const [name, one] of properties) {
        if (random() < (required.includes(name) ? 0.97 : optional)) out[name] = invent(one, components, random);
      }
      if (random() < 0.05) out["surprise"] = pick(JUNK);
      if (typeof schema["additionalProperties"] === "object") {
        for (let i = 0; i < random() * 4; i++)
          out[`X-${i}`] = invent(schema["additionalProperties"] as Schema, components, random);
      }
      return out;
    }
    case "array":
      return Array.from({ length: Math.floor(random() * 4) }, () =>
        invent(schema["items"] as Schema, components, random),
      );
    case "integer":
    case "number": {
      const [low, high] = [Number(schema["minimum"] ?? 0), Number(schema["maximum"] ?? 1_000)];
      const value = low + random() * (high - low);
      return schema["type"] === "integer" ? Math.round(value) : value;
    }
    case "boolean":
      return random() < 0.5;
    case "null":
      return null;
    case "string":
      return pick(["a", "deposit:paid", "https://hooks.example.com/x", "7", "50", "key_1"]);
    default:
      return pick(JUNK);
  }
}
