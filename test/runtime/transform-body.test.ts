// What a transform may return, and what an attempt says of one that failed.
import { describe, expect, it } from "vitest";
import { detailOf, transformedBody } from "../../core/runtime/transforms/run.ts";
import { MAX_TRANSFORMED_BYTES, TRANSFORM_NAME } from "../../core/model/transform.ts";

const body = (result: unknown): string => transformedBody(result, JSON.stringify);

describe("the result of a transform", () => {
  it.each([
    [{ text: "paid" }, '{"text":"paid"}'],
    [[1, { a: undefined }], "[1,{}]"],
    [{}, "{}"],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [{ toJSON: () => ({ own: true }) }, '{"own":true}'],
    [JSON.parse('{"__proto__":{"x":1}}'), '{"__proto__":{"x":1}}'],
  ])("is sent as JSON: %j", (result, text) => {
    expect(body(result)).toBe(text);
  });

  it.each([
    [undefined, "returned undefined, not an object"],
    [null, "returned null, not an object"],
    ["text", "returned string, not an object"],
    [7, "returned number, not an object"],
    [() => ({}), "returned function, not an object"],
    [Promise.resolve({}), "returned a promise"],
    [new Map([[1, 2]]), "returned a Map, which JSON cannot express"],
    [/a/, "returned a RegExp, which JSON cannot express"],
    [new Date(0), "returned what is no object in JSON"],
    [{ toJSON: () => undefined }, "returned what is no object in JSON"],
    [{ a: "é".repeat(MAX_TRANSFORMED_BYTES / 2) }, "returned 262152 bytes: a body has at most 262144"],
  ])("is refused when it is no object that JSON can express: %s", (result, message) => {
    expect(() => body(result)).toThrow(message);
  });

  it("may have as many bytes as an event, and not one more", () => {
    const rest = '{"a":""}'.length;
    expect(body({ a: "x".repeat(MAX_TRANSFORMED_BYTES - rest) })).toHaveLength(MAX_TRANSFORMED_BYTES);
    expect(() => body({ a: "x".repeat(MAX_TRANSFORMED_BYTES - rest + 1) })).toThrow("a body has at most");
  });
});

describe("the detail of an attempt whose transform failed", () => {
  it.each([
    [new RangeError("no such\n currency"), "threw RangeError: no such currency"],
    ["plain text", "threw plain text"],
    [{ toString: () => "\u0000\u001b[31mred\u2028" }, "threw [31mred "],
    [
      {
        toString() {
          throw new Error("no");
        },
      },
      "threw something that cannot be read",
    ],
    [new Error("x".repeat(100_000)), `threw Error: ${"x".repeat(1_187)}`],
  ])("is one short line, whatever was thrown", (thrown, detail) => {
    expect(detailOf(thrown)).toBe(detail);
  });
});

describe("the name of a transform", () => {
  it.each(["slack", "a", "to_teams-2"])("may be %s", (name) => expect(name).toMatch(TRANSFORM_NAME));
  it.each(["", "2a", "__proto__", "a b", "a.b", "a".repeat(65)])("may not be %j", (name) =>
    expect(name).not.toMatch(TRANSFORM_NAME),
  );
});
