// Schemas of event types: what they find in data, what is refused of a schema, and that no data makes them slow.
import { describe, expect, it } from "vitest";
import type { EventTypes, JsonSchema } from "../../../core/model/event-type.ts";
import { compileEventTypes } from "../../../core/runtime/event-types/compile.ts";

const typed = (schema: JsonSchema, example?: unknown): EventTypes => ({
  "deposit:paid": { schema, validate: "refuse", ...(example !== undefined && { example }) },
});
async function judge(schema: JsonSchema, data: unknown) {
  const compiled = await compileEventTypes(typed(schema));
  expect(compiled.problems).toEqual([]);
  return compiled.problem("deposit:paid", data);
}
const problems = async (schema: unknown, example?: unknown) =>
  (await compileEventTypes(typed(schema as JsonSchema, example))).problems;

const deposit: JsonSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "https://example.com/deposit",
  type: "object",
  required: ["amount"],
  properties: {
    amount: { $ref: "#/$defs/money" },
    items: { type: "array", items: { type: "object", properties: { "a/b": { type: "integer" } } }, uniqueItems: true },
    state: { enum: ["open", "done", null, { a: 1, b: 2 }] },
    price: { multipleOf: 0.01 },
    mail: { type: "string", format: "email", example: "a@example.com", "x-private": true },
  },
  additionalProperties: false,
  $defs: { money: { type: "string", pattern: "^\\d+\\.\\d{2}$" } },
};

describe("data", () => {
  it.each([
    [{ amount: "12.50" }, undefined],
    [{ amount: "12.5" }, "data.amount"],
    [{}, "data.amount"],
    [{ amount: "1.00", constructor: 1 }, "data.constructor"],
    [{ amount: "1.00", items: [{ "a/b": 1 }, { "a/b": "x" }] }, "data.items[1].a/b"],
    [
      {
        amount: "1.00",
        items: [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      },
      "data.items",
    ],
    [{ amount: "1.00", items: [{ a: 1 }, { a: "1" }] }, undefined],
    [{ amount: "1.00", state: null }, undefined],
    [{ amount: "1.00", state: { b: 2, a: 1 } }, undefined],
    [{ amount: "1.00", state: "gone" }, "data.state"],
    [{ amount: "1.00", price: 4.35 }, undefined],
    [{ amount: "1.00", price: 4.355 }, "data.price"],
    [{ amount: "1.00", mail: "no address" }, undefined],
    [null, "data"],
  ])("is judged by its place: %j", async (data, path) => {
    expect((await judge(deposit, data))?.path).toBe(path);
  });

  it.each([
    [{ const: { a: 1, b: [2] } }, '{"b":[2],"a":1}', undefined],
    [{ const: { a: 1 } }, '{"valueOf":1}', "data"],
    [{ const: { a: 1 } }, '{"toString":null}', "data"],
    [{ const: [{ a: 1 }] }, '[{"toString":1}]', "data"],
    [{ const: { a: 1 } }, '{"__proto__":{"a":1}}', "data"],
    [{ const: "a" }, '["a"]', "data"],
    [{ const: null }, "1e999", "data"],
    [{ enum: [null, 1] }, "1e999", "data"],
    [{ uniqueItems: true }, "[1e999,null,-1e999]", undefined],
    [{ uniqueItems: true }, "[0,-0]", "data"],
  ] as const)("is compared as JSON, whatever its names and numbers are: %j and %s", async (schema, data, path) => {
    expect((await judge(schema, JSON.parse(data)))?.path).toBe(path);
  });

  it("does not inherit what a schema asks for", async () => {
    expect(await judge({ required: ["toString"] }, {})).toMatchObject({ path: "data.toString", message: "is missing" });
  });

  it("with names of any length is reported in few characters", async () => {
    const found = await judge({ additionalProperties: false }, { ["x".repeat(100_000)]: 1 });
    expect(found?.path.length).toBeLessThanOrEqual(200);
  });
});

describe("a schema", () => {
  it.each([
    [
      "refers to another document",
      { $ref: "https://example.com/x.json" },
      ["schema", "$ref"],
      "place in the schema itself",
    ],
    [
      "refers to a file",
      { properties: { a: { $ref: "other.json#/a" } } },
      ["schema", "properties", "a", "$ref"],
      "itself",
    ],
    ["refers to nothing", { $ref: "#/$defs/x" }, ["schema", "$ref"], "not there"],
    [
      "refers to itself",
      { properties: { next: { $ref: "#" } } },
      ["schema", "properties", "next", "$ref"],
      "to itself",
    ],
    [
      "has a definition that refers to itself",
      { $defs: { a: { not: { $ref: "#/$defs/a" } } } },
      undefined,
      "to itself",
    ],
    ["has a pattern with a look-ahead", { pattern: "^(?=a)" }, ["schema"], "linear time"],
    ["has a key pattern that refers back", { patternProperties: { "(a)\\1": true } }, ["schema"], "linear time"],
    ["is of another draft", { $schema: "http://json-schema.org/draft-07/schema#" }, ["schema", "$schema"], "2020-12"],
    ["has a dynamic reference", { $dynamicRef: "#a" }, ["schema", "$dynamicRef"], "not supported"],
    ["has a name within", { properties: { a: { $id: "x" } } }, ["schema", "properties", "a", "$id"], "at the top only"],
    [
      "has a keyword with the wrong value",
      { type: "strin" },
      ["schema", "type"],
      "is not what JSON Schema 2020-12 allows",
    ],
    ["has a keyword with the wrong type", { properties: 5 }, ["schema", "properties"], "must be of the type object"],
    ["has a keyword that nobody knows", { foo: 1 }, ["schema"], 'unknown keyword: "foo"'],
    ["has a keyword that does not exist", { requird: ["a"] }, ["schema"], "requird"],
    [
      "has a property that the validator leaves out",
      JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'),
      ["schema", "properties", "__proto__"],
      "not supported",
    ],
    ["is none", 5, ["schema"], "must be a JSON Schema"],
  ])("is refused when it %s", async (_, schema, path, message) => {
    const [found] = await problems(schema);
    expect(found?.type).toBe("deposit:paid");
    if (path !== undefined) expect(found?.path).toEqual(path);
    expect(found?.message).toContain(message);
  });

  it("is refused when its references written out grow without bound", async () => {
    const $defs: Record<string, unknown> = { d0: { type: "string" } };
    for (let i = 1; i < 40; i++)
      $defs[`d${i}`] = { allOf: [{ $ref: `#/$defs/d${i - 1}` }, { $ref: `#/$defs/d${i - 1}` }] };
    expect((await problems({ $ref: "#/$defs/d39", $defs }))[0]?.message).toContain("more than 10000 parts");
  });

  it("is refused when it nests too deep", async () => {
    let schema: Record<string, unknown> = {};
    for (let i = 0; i < 5_000; i++) schema = { not: schema };
    expect((await problems(schema))[0]?.message).toContain("deeper than");
  });

  it("may hold the same name in two types", async () => {
    const both = { a: { schema: deposit, validate: "refuse" }, b: { schema: deposit, validate: "warn" } } as const;
    expect((await compileEventTypes(both)).problems).toEqual([]);
  });

  it("refuses an example that does not match it, and says where", async () => {
    expect(await problems(deposit, { amount: "1.00" })).toEqual([]);
    const [found] = await problems(deposit, { amount: 1 });
    expect(found).toMatchObject({
      path: ["example"],
      message: "does not match the schema: data.amount must be text",
    });
  });
});

describe("what is wrong with data", () => {
  const two = { type: "object", minProperties: 1, propertyNames: { maxLength: 3 }, dependentRequired: { a: ["b"] } };
  it.each([
    [{ type: "integer" }, "1", "data", "must be a whole number"],
    [{ type: ["array", "null"] }, 1, "data", "must be a list or null"],
    [{ required: ["id"] }, {}, "data.id", "is missing"],
    [{ additionalProperties: false }, { id: 1 }, "data.id", "is not in the schema"],
    [{ minimum: 1 }, 0, "data", "must be 1 or more"],
    [{ maximum: 1 }, 2, "data", "must be 1 or less"],
    [{ exclusiveMinimum: 1 }, 1, "data", "must be more than 1"],
    [{ exclusiveMaximum: 1 }, 1, "data", "must be less than 1"],
    [{ multipleOf: 5 }, 7, "data", "must be a multiple of 5"],
    [{ minLength: 2 }, "a", "data", "must have 2 characters or more"],
    [{ maxLength: 2 }, "abc", "data", "must have 2 characters or fewer"],
    [{ pattern: "^a$" }, "b", "data", "must match the pattern ^a$"],
    [{ minItems: 1 }, [], "data", "must have 1 items or more"],
    [{ maxItems: 1 }, [1, 2], "data", "must have 1 items or fewer"],
    [{ prefixItems: [{}], items: false }, [1, 2], "data", "must have 1 items or fewer"],
    [{ uniqueItems: true }, [1, 1], "data", "must not have the same item twice"],
    [{ contains: { type: "string" } }, [1], "data", "does not contain the items that the schema asks for"],
    [two, {}, "data", "must have 1 members or more"],
    [two, { long: 1 }, "data", "has a member whose name the schema does not allow: long"],
    [two, { a: 1 }, "data.b", "is missing: it goes with a"],
    [{ enum: ["a"] }, "b", "data", "must be one of the values that the schema lists"],
    [{ const: "a" }, "b", "data", "must be the one value that the schema names"],
    [{ anyOf: [{ type: "string" }, { minimum: 3 }] }, 2, "data", "matches none of the schemas that it may have"],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, "data", "matches more than one of the schemas that it may have"],
    [{ not: { type: "string" } }, "a", "data", "is what the schema rules out"],
    [{ properties: { a: false } }, { a: 1 }, "data.a", "is not allowed by the schema"],
    [JSON.parse('{ "if": {}, "then": { "type": "string" } }') as JsonSchema, 1, "data", "must be text"],
  ] as const)("is said in a sentence: %j", async (schema, data, path, message) => {
    expect(await judge(schema as JsonSchema, data)).toEqual({ path, message });
  });
});

describe("no data makes a schema slow", () => {
  // Each of these takes minutes or more with the library's own keywords.
  it.each([
    ["a pattern", { pattern: "^(a+)+$" }, `${"a".repeat(200_000)}!`],
    ["unique items", { uniqueItems: true }, Array.from({ length: 80_000 }, (_, i) => ({ i }))],
    [
      "a long list of values",
      { items: { enum: Array.from({ length: 9_000 }, (_, i) => `v${i}`) } },
      Array.from({ length: 80_000 }, () => "v"),
    ],
  ])("through %s", async (_, schema, data) => {
    const compiled = await compileEventTypes(typed(schema));
    // Of the processor: what else the machine does is no matter.
    const began = process.cpuUsage();
    compiled.problem("deposit:paid", data);
    expect(process.cpuUsage(began).user).toBeLessThan(20_000_000);
  });
});
