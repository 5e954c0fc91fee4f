import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { duplicateNames, elements, isTooDeep, members } from "../../core/lib/json.ts";

const space = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });

/** A string as somebody may spell it: any character plain where JSON allows, or escaped. */
const spelled = (text: string): fc.Arbitrary<string> =>
  fc
    .array(fc.boolean(), { minLength: text.length, maxLength: text.length })
    .map((escape) =>
      Array.from({ length: text.length }, (_, i) => {
        const unit = text.charAt(i);
        if (escape[i]) return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
        return JSON.stringify(unit).slice(1, -1);
      }).join(""),
    )
    .map((inside) => `"${inside}"`);

const number = fc.oneof(
  fc.double({ noDefaultInfinity: true, noNaN: true }).map(String),
  fc.bigInt().map(String),
  fc.constantFrom("1.0", "-0", "1e5", "1E+05", "12345678901234567890.00", "0.1e-7"),
);

/** JSON text with odd white space, escapes, big numbers and repeated names. */
const json: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.oneof(fc.constantFrom("null", "true", "false"), number, fc.string().chain(spelled)),
    fc
      .array(fc.tuple(space, tie("value"), space), { maxLength: 4 })
      .map((items) => `[${items.map((item) => item.join("")).join()}${items.length === 0 ? " " : ""}]`),
    fc
      .array(fc.tuple(space, fc.constantFrom('"a"', '"\\u0061"', '"b\\"]"', '""'), space, tie("value"), space), {
        maxLength: 4,
      })
      .map((items) => `{${items.map(([a, name, b, value, c]) => `${a}${name}${b}:${value}${c}`).join()}}`),
  ),
})).value;

describe("members", () => {
  it("finds the raw text of every value, byte for byte, whatever stands around it", () => {
    const member = fc.tuple(
      fc.string().chain((name) => fc.tuple(fc.constant(name), spelled(name))),
      json,
      space,
      space,
    );
    fc.assert(
      fc.property(fc.array(member, { maxLength: 6 }), space, (list, pad) => {
        const inside = list.map(([[, name], value, a, b]) => `${a}${name}${b}:${a}${value}${b}`).join();
        const text = `${pad}{${inside}${list.length === 0 ? pad : ""}}${pad}`;
        JSON.parse(text);
        const found = members(text);
        if (typeof found === "string") return expect.fail(found);
        expect(found.map(({ name, start, end }) => [name, text.slice(start, end)])).toEqual(
          list.map(([[name], value]) => [name, value]),
        );
      }),
    );
  });

  it("never throws or hangs on text that is no JSON", () => {
    const rubbish = fc.string({ unit: fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", " ", "a", "1", "\n") });
    fc.assert(
      fc.property(rubbish, (text) => {
        members(text);
        members(`{"a":${text}`);
        elements(`[${text}`);
        isTooDeep(text);
        duplicateNames(text);
      }),
      { numRuns: 2_000 },
    );
  });

  it("says what is no object", () => {
    for (const text of ["", "[]", "1", '"{}"', "null", " "]) expect(members(text)).toBe("not an object");
  });

  it("counts levels without going down them", () => {
    const nested = (levels: number): string => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    expect(members(nested(64))).toHaveLength(1);
    expect(members(nested(65))).toBe("too deep");
    expect(members(`{"a":"${"[".repeat(100)}","b":[]}`)).toHaveLength(2);
    expect(members("[".repeat(1_000_000))).toBe("too deep");
  });

  it("takes linear time for strings full of backslashes and quotes", () => {
    const text = `{"a":"${'\\\\\\"'.repeat(200_000)}"}`;
    JSON.parse(text);
    expect(members(text)).toEqual([{ name: "a", start: 5, end: text.length - 1 }]);
  });
});

describe("isTooDeep", () => {
  it("agrees with a count of the levels", () => {
    const depth = (value: unknown): number =>
      typeof value === "object" && value !== null
        ? 1 + Math.max(0, ...Object.values(value).map((inner: unknown) => depth(inner)))
        : 0;
    fc.assert(
      fc.property(fc.json({ depthSize: "large" }), fc.integer({ min: 0, max: 6 }), (text, limit) => {
        expect(isTooDeep(text, limit)).toBe(depth(JSON.parse(text)) > limit);
      }),
    );
  });
});

describe("elements", () => {
  it("cuts an array into its items, byte for byte", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(space, json, space)), space, (items, pad) => {
        const text = `${pad}[${items.map((item) => item.join("")).join()}${items.length === 0 ? pad : ""}]${pad}`;
        JSON.parse(text);
        expect(elements(text)?.map(({ start, end }) => text.slice(start, end))).toEqual(items.map(([, item]) => item));
      }),
    );
  });

  it("gives items that are JSON exactly when the whole is", () => {
    const valid = (text: string): boolean => {
      try {
        JSON.parse(text);
        return true;
      } catch {
        return false;
      }
    };
    const unit = fc.constantFrom("{", "}", "[", "]", '"a"', ":", ",", " ", "1", "\\", '"', "true");
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 12 }), (parts) => {
        const text = `[${parts.join("")}`;
        const items = elements(text);
        const itemsValid = items?.every(({ start, end }) => valid(text.slice(start, end))) ?? false;
        expect(itemsValid).toBe(valid(text));
      }),
      { numRuns: 5_000 },
    );
  });

  it("stops reading where it was told to", () => {
    expect(elements(`[${"1,".repeat(10_000)}`, 11)).toHaveLength(11);
  });
});

describe("duplicateNames", () => {
  it("finds repeated names at every level, however they are spelled", () => {
    expect(duplicateNames('{"a":1,"\\u0061":2,"b":{"c":1,"c":2,"c":3},"d":[0,{"e":1,"e":1}]}')).toEqual([
      "a",
      "b.c",
      "d[1].e",
    ]);
    expect(duplicateNames('[{"x":{"y":1,"y":1}}]')).toEqual(["[0].x.y"]);
  });

  it("finds none in what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(duplicateNames(text)).toEqual([]);
      }),
    );
  });

  it("is safe on text of any depth", () => {
    expect(duplicateNames('{"a":'.repeat(100_000))).toEqual([]);
  });
});
