/** Reads event types out of the `webhooks` of an OpenAPI document, each schema with what it refers to. */
import type { EventTypeOptions, JsonSchema } from "../../core/model/event-type.ts";
import { isEventName, OPERATIONAL } from "../../core/model/names.ts";
import { objectOf } from "../support/inputs.ts";

type Fields = Readonly<Record<string, unknown>>;

interface ReadTypes {
  readonly types: Readonly<Record<string, EventTypeOptions>>;
  /** A line for each thing that was left out, with the reason. */
  readonly notes: readonly string[];
}

/** Where schemas that are referred to stand. */
const SCHEMAS = "#/components/schemas/";

/** @returns `undefined` where the document has no webhooks */
export function openApiTypes(document: Fields): ReadTypes | undefined {
  const webhooks = objectOf(document["webhooks"] ?? document["x-webhooks"]);
  if (webhooks === undefined) return undefined;
  const types: Record<string, EventTypeOptions> = {};
  const notes: string[] = [];
  for (const [webhook, item] of Object.entries(webhooks)) {
    try {
      const { name, type } = typeOf(document, webhook, item, notes);
      if (Object.hasOwn(types, name)) notes.push(`${webhook}: left out: ${name} is there already`);
      else types[name] = type;
    } catch (error) {
      notes.push(`${webhook}: left out: ${(error as Error).message}`);
    }
  }
  return { types, notes };
}

function typeOf(document: Fields, webhook: string, given: unknown, notes: string[]) {
  const item = followed(document, given);
  const operation = objectOf(item?.["post"] ?? item?.["put"]);
  if (operation === undefined) throw new Error("it has no POST operation");
  const body = followed(document, operation["requestBody"]);
  const content = Object.entries(objectOf(body?.["content"]) ?? {});
  const media = objectOf(content.find(([type]) => /^application\/(?:[\w.-]+\+)?json\b/.test(type))?.[1]);
  const whole = media?.["schema"];
  const envelope = envelopeOf(document, whole);
  const named = envelope?.type;
  const name = named !== undefined && isEventName(named) ? named : webhook;
  // A module that names it so would set a prototype, and lose it.
  if (!isEventName(name) || name.startsWith(OPERATIONAL) || name === "__proto__")
    throw new Error("its name is no event name: letters, digits, _ and - in parts separated by : or .");
  const { summary, description = summary, deprecated } = operation;
  const type: Record<string, unknown> = {};
  if (typeof description === "string" && description.trim() !== "")
    type["description"] = description.trim().slice(0, 1_000);
  if (deprecated === true) type["deprecated"] = true;
  const schema = envelope === undefined ? whole : envelope.data;
  if (schema !== undefined) {
    try {
      type["schema"] = standalone(document, schema);
    } catch (error) {
      notes.push(`${name}: its schema is left out: ${(error as Error).message}`);
    }
  }
  const example = exampleOf(document, media);
  const data = envelope === undefined ? example : objectOf(example)?.["data"];
  if (data !== undefined) type["example"] = data;
  return { name, type: type as EventTypeOptions };
}

/** The parts of a body that is shaped as a delivery is: `type` and `data` beside others. */
function envelopeOf(document: Fields, schema: unknown): { readonly type?: string; readonly data: unknown } | undefined {
  const properties = objectOf(followed(document, schema)?.["properties"]);
  if (properties === undefined || !Object.hasOwn(properties, "data") || !Object.hasOwn(properties, "type"))
    return undefined;
  const type = followed(document, properties["type"]);
  const [only, ...more] = Array.isArray(type?.["enum"]) ? (type["enum"] as unknown[]) : [type?.["const"]];
  return { data: properties["data"], ...(typeof only === "string" && more.length === 0 && { type: only }) };
}

function exampleOf(document: Fields, media: Fields | undefined): unknown {
  if (media === undefined) return undefined;
  if (media["example"] !== undefined) return media["example"];
  const [first] = Object.values(objectOf(media["examples"]) ?? {});
  return followed(document, first)?.["value"];
}

/** An object of the document, behind its `$ref` where it has one. @throws Error when that leads nowhere */
function followed(document: Fields, given: unknown): Fields | undefined {
  let at = objectOf(given);
  for (let steps = 0; typeof at?.["$ref"] === "string"; steps++) {
    if (steps === 20) throw new Error("its references lead in a circle");
    at = objectOf(lookUp(document, at["$ref"]));
  }
  return at;
}

/** @throws Error */
function lookUp(document: Fields, ref: string): unknown {
  if (!ref.startsWith("#/")) throw new Error(`it refers to another document: ${ref}`);
  let at: unknown = document;
  for (const part of ref.slice(2).split("/")) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    at = objectOf(at) !== undefined && Object.hasOwn(at as object, name) ? (at as Fields)[name] : undefined;
    if (at === undefined) throw new Error(`it refers to what is not there: ${ref}`);
  }
  return at;
}

/** A schema together with the components that it refers to, as its `$defs`. @throws Error */
function standalone(document: Fields, schema: unknown): JsonSchema {
  const defs: Record<string, unknown> = {};
  const names = new Map<string, string>();

  function defined(ref: string): string {
    const known = names.get(ref);
    if (known !== undefined) return known;
    const target = lookUp(document, ref);
    const wanted = (ref.startsWith(SCHEMAS) ? ref.slice(SCHEMAS.length) : ref.slice(2)).replaceAll(/[^\w.-]/g, "_");
    const name = Object.hasOwn(defs, wanted) ? `${wanted}_${names.size}` : wanted;
    names.set(ref, name);
    defs[name] = true;
    defs[name] = moved(target);
    return name;
  }

  function moved(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(moved);
    if (typeof value !== "object" || value === null) return value;
    const { nullable, ...words } = value as Fields;
    const out: Record<string, unknown> = {};
    for (const [word, one] of Object.entries(words)) {
      if (word === "$ref" && typeof one === "string") out[word] = `#/$defs/${defined(one)}`;
      else if (DATA.has(word)) out[word] = one;
      else if (BY_NAME.has(word) && objectOf(one) !== undefined) {
        out[word] = Object.fromEntries(Object.entries(one as Fields).map(([name, each]) => [name, moved(each)]));
      } else out[word] = moved(one);
    }
    // OpenAPI 3.0 said it so.
    if (nullable === true && typeof out["type"] === "string") out["type"] = [out["type"], "null"];
    return out;
  }

  const made = moved(schema);
  if (typeof made === "boolean") return made;
  if (objectOf(made) === undefined) throw new Error("it is no schema");
  return Object.keys(defs).length === 0 ? (made as Fields) : { ...(made as Fields), $defs: defs };
}

/** Keywords whose value is data and no schema. */
const DATA = new Set(["const", "enum", "default", "example", "examples"]);
/** Keywords that hold schemas by names, which may be spelled like keywords. */
const BY_NAME = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);
