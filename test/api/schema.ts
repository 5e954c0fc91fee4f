/** JSON Schema, as far as our document uses it: checks values against schemas, and makes values from them. */

export type Schema = Readonly<Record<string, unknown>>;

/** Says in words what is wrong with a value; nothing when it fits. Unknown keywords are an error of the checker's own. */
export function misfits(schema: Schema | false, value: unknown, components: Schema, path = "$"): readonly string[] {
  if (schema === false) return [`${path} is given`];
  const at = (rest: string): readonly string[] => [`${path} ${rest}`];
  const out: string[] = [];
  for (const [keyword, rule] of Object.entries(schema)) {
    switch (keyword) {
      case "$ref":
        out.push(...misfits(components[String(rule).split("/").at(-1) ?? ""] as Schema, value, components, path));
        break;
      case "anyOf":
        if (!(rule as Schema[]).some((one) => misfits(one, value, components, path).length === 0))
          out.push(...at("fits none"));
        break;
      case "oneOf":
        if ((rule as Schema[]).filter((one) => misfits(one, value, components, path).length === 0).length !== 1)
          out.push(...at("fits none, or several"));
        break;
      case "not":
        if (misfits(rule as Schema, value, components, path).length === 0) out.push(...at("fits what it must not"));
        break;
      case "type":
        if (![rule].flat().some((type) => isOfType(String(type), value))) return at(`is no ${String(rule)}`);
        break;
      case "enum":
        if (!(rule as unknown[]).includes(value)) out.push(...at("is none of the enum"));
        break;
      case "const":
        if (rule !== value) out.push(...at("is not the constant"));
        break;
      case "format":
        if (rule === "date-time" && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(String(value)))
          out.push(...at("is no time"));
        break;
      case "required":
        for (const name of rule as string[])
          if (!Object.hasOwn(value as object, name)) out.push(...at(`lacks ${name}`));
        break;
      case "properties":
        for (const [name, one] of Object.entries(rule as Record<string, Schema>)) {
          if (Object.hasOwn(value as object, name))
            out.push(...misfits(one, (value as Schema)[name], components, `${path}.${name}`));
        }
        break;
      case "additionalProperties":
        for (const [name, one] of Object.entries(value as Schema)) {
          if (Object.hasOwn((schema["properties"] ?? {}) as object, name)) continue;
          if (rule === false) out.push(...at(`has ${name}`));
          else out.push(...misfits(rule as Schema, one, components, `${path}.${name}`));
        }
        break;
      case "prefixItems":
        for (const [i, one] of (rule as Schema[]).entries())
          out.push(...misfits(one, (value as unknown[])[i], components, `${path}[${i}]`));
        break;
      case "items":
        for (const [i, one] of (value as unknown[]).slice(((schema["prefixItems"] ?? []) as []).length).entries())
          out.push(...misfits(rule as Schema, one, components, `${path}[${i}]`));
        break;
      case "minimum":
        if (Number(value) < Number(rule)) out.push(...at("is too small"));
        break;
      case "maximum":
        if (Number(value) > Number(rule)) out.push(...at("is too large"));
        break;
      case "description":
      case "examples":
      case "default":
      case "pattern":
      case "minLength":
      case "maxLength":
      case "minItems":
      case "maxItems":
        break;
      case "propertyNames":
        for (const name of Object.keys(value as object))
          out.push(...misfits(rule as Schema, name, components, `${path} has a name that`));
        break;
      case "minProperties":
        if (Object.keys(value as object).length < Number(rule)) out.push(...at("has too few fields"));
        break;
      case "maxProperties":
        if (Object.keys(value as object).length > Number(rule)) out.push(...at("has too many fields"));
        break;
      default:
        out.push(...at(`has a keyword that the checker does not know: ${keyword}`));
    }
  }
  return out;
}

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return typeof value === type;
  }
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
