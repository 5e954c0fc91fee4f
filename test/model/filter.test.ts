// What a filter matches, and what a judgement costs at most.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileFilter, type Filter, FILTER_BOUNDS, type FilterValue, reportFilter } from "../../core/model/filter.ts";

const TYPE = "deposit:paid";
/** Judges the data as it was published. */
const matches = (filter: Filter, data: string, type = TYPE): boolean =>
  compileFilter(filter).matches({ type, data: JSON.parse(data) as unknown });
const at = (path: Filter["path"], rest: Filter): Filter => ({ path, ...rest });

describe("a condition", () => {
  it.each<[Filter, string, boolean]>([
    [at("type", { equals: TYPE }), "1", true],
    [at("type", { prefix: "deposit:" }), "1", true],
    [at("type", { in: ["withdraw:paid"] }), "1", false],
    [at("data", { equals: "x" }), '"x"', true],
    [at("data.a.b", { equals: "x" }), '{"a":{"b":"x"}}', true],
    [at("data.a.b", { equals: "x" }), '{"a.b":"x"}', false],
    [at(["data", "a.b"], { equals: "x" }), '{"a.b":"x"}', true],
    [at(["data", ""], { equals: "x" }), '{"":"x"}', true],
    // Items of a list, by position.
    [at("data.items.1.sku", { equals: "b" }), '{"items":[{"sku":"a"},{"sku":"b"}]}', true],
    [at("data.items.2", { exists: true }), '{"items":[1,2]}', false],
    [at("data.items.01", { exists: true }), '{"items":[1,2]}', false],
    [at("data.items.length", { exists: true }), '{"items":[1,2]}', false],
    [at("data.name.length", { exists: true }), '{"name":"abc"}', false],
    [at("data.name.0", { exists: true }), '{"name":"abc"}', false],
    // Strings compare exactly: no case, no normal form, no conversion.
    [at("data", { equals: "a" }), '"A"', false],
    [at("data", { equals: "é" }), '"e\\u0301"', false],
    [at("data", { equals: "\ud800" }), '"\\ud800"', true],
    [at("data", { equals: "1" }), "1", false],
    [at("data", { equals: 1 }), '"1"', false],
    [at("data", { equals: true }), "1", false],
    [at("data", { prefix: "ab" }), '"abc"', true],
    [at("data", { prefix: "abc" }), '"ab"', false],
    [at("data", { prefix: "1" }), "12", false],
    // Missing and null are different.
    [at("data.a", { equals: null }), '{"a":null}', true],
    [at("data.a", { equals: null }), "{}", false],
    [at("data.a", { in: [null, 1] }), "{}", false],
    [at("data.a", { exists: true }), '{"a":null}', true],
    [at("data.a", { exists: false }), '{"a":null}', false],
    [at("data.a", { exists: false }), "{}", true],
    [at("data.a.b", { exists: false }), '{"a":null}', true],
    [{ not: at("data.a", { equals: 1 }) }, "{}", true],
    // Numbers are IEEE 754 doubles, however they are written.
    [at("data", { equals: 1 }), "1.0", true],
    [at("data", { equals: 1 }), "1e0", true],
    [at("data", { equals: 0 }), "-0", true],
    [at("data", { in: [0] }), "-0.0", true],
    [at("data", { equals: 0.1 }), "0.1", true],
    [at("data", { equals: 0.3 }), "0.30000000000000004", false],
    [at("data", { equals: 0.1 }), "0.1000000000000000000001", true],
    [at("data", { equals: 9_007_199_254_740_992 }), "9007199254740993", true],
    [at("data", { gt: Number.MAX_VALUE }), "1e400", true],
    [at("data", { gte: 100 }), "100", true],
    [at("data", { gt: 100 }), "100", false],
    [at("data", { gt: 100 }), "100.00000000000001", true],
    [at("data", { gte: 1, lt: 2 }), "1.9999", true],
    [at("data", { gte: 1, lt: 2 }), "2", false],
    [at("data", { lte: 2 }), '"1"', false],
    [at("data", { lte: 2 }), "null", false],
    [at("data", { lte: 2 }), "[1]", false],
    // A list or an object is equal to nothing.
    [at("data", { equals: "" }), "[]", false],
    // Of repeated names the last counts, as for JSON.parse.
    [at("data.a", { equals: 2 }), '{"a":1,"a":2}', true],
    [at("data.a", { equals: 1 }), '{"a":1,"a":2}', false],
  ])("%j on %s is %s", (filter, data, expected) => {
    expect(matches(filter, data)).toBe(expected);
    expect(reportFilter(filter, { type: TYPE, data: JSON.parse(data) as unknown }).matched).toBe(expected);
  });

  it.each(["__proto__", "constructor", "toString", "hasOwnProperty"])(
    "sees %s only where it is a name of the data",
    (name) => {
      const there = { path: ["data", "a", name, "polluted"], equals: 1 };
      expect(matches(there, "{}")).toBe(false);
      expect(matches({ path: ["data", name], exists: true }, "{}")).toBe(false);
      expect(matches({ path: ["data", name], exists: true }, "[]")).toBe(false);
      expect(matches(there, `{"a":{"${name}":{"polluted":1}}}`)).toBe(true);
      expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    },
  );
});

describe("the report of a filter", () => {
  const decided = (filter: Filter, data: unknown): readonly string[] =>
    reportFilter(filter, { type: TYPE, data }).conditions.flatMap((one) => (one.decided ? [one.at] : []));

  it("does not call a number that is too large null", () => {
    const data = JSON.parse('{"n":1e999}') as unknown;
    const { conditions } = reportFilter({ path: "data.n", equals: null }, { type: TYPE, data });
    expect(conditions[0]).toMatchObject({ matched: false, found: "Infinity" });
  });
  const [yes, no] = [at("data.yes", { exists: true }), at("data.no", { exists: true })];
  const data = { yes: 1 };

  it("names the conditions from which the outcome follows", () => {
    expect(decided({ and: [yes, no, no] }, data)).toEqual(["filter.and[1]", "filter.and[2]"]);
    expect(decided({ or: [no, yes] }, data)).toEqual(["filter.or[1]"]);
    expect(decided({ or: [no, { not: yes }] }, data)).toEqual(["filter.or[0]", "filter.or[1].not"]);
    expect(decided({ not: { and: [yes, no] } }, data)).toEqual(["filter.not.and[1]"]);
    expect(decided(yes, data)).toEqual(["filter"]);
  });
});

const NAMES = ["a", "b", "0", "1", "a.b", "__proto__", "length", ""];
const scalar = fc.oneof(
  fc.constantFrom<FilterValue>("", "a", "ab", "b", 0, 1, 1.5, -1, 1e21, true, false, null),
  fc.double({ noNaN: true }),
  fc.string({ maxLength: 3 }),
);
const names = fc.array(fc.constantFrom(...NAMES), { maxLength: 3 });
const condition: fc.Arbitrary<Filter> = fc
  .tuple(
    fc.oneof(
      names.map((rest) => ["data", ...rest]),
      fc.constant(["type"]),
      fc.constant("data.a.b"),
    ),
    fc.oneof(
      scalar.map((equals): Filter => ({ equals })),
      fc.array(scalar, { minLength: 1, maxLength: 4 }).map((any): Filter => ({ in: any })),
      fc.boolean().map((exists): Filter => ({ exists })),
      fc.string({ minLength: 1, maxLength: 2 }).map((prefix): Filter => ({ prefix })),
      fc.record({ gte: fc.double({ noNaN: true }), lt: fc.double({ noNaN: true }) }),
      fc.record({ gt: fc.integer(), lte: fc.integer() }),
    ),
  )
  .map(([path, rest]) => ({ path, ...rest }));
const { filter } = fc.letrec<{ filter: Filter }>((tie) => {
  const some = fc.array(tie("filter"), { minLength: 1, maxLength: 3 });
  return {
    filter: fc.oneof(
      { maxDepth: 5, depthSize: "small" },
      condition,
      some.map((and) => ({ and })),
      some.map((or) => ({ or })),
      tie("filter").map((not) => ({ not })),
    ),
  };
});
/** JSON text, for only text can repeat names and have `__proto__` for one. */
const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    scalar.map((one) => JSON.stringify(one)),
    fc.array(tie("json"), { maxLength: 3 }).map((all) => `[${all.join(",")}]`),
    fc
      .array(fc.tuple(fc.constantFrom(...NAMES), tie("json")), { maxLength: 4 })
      .map((all) => `{${all.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`),
  ),
}));

/** The same judgement in the plainest way: the data as nested maps, everything searched from the start. */
function naive(one: Filter, type: string, data: unknown): boolean {
  if (one.and) return one.and.filter((part) => !naive(part, type, data)).length === 0;
  if (one.or) return one.or.filter((part) => naive(part, type, data)).length > 0;
  if (one.not) return !naive(one.not, type, data);
  const path = typeof one.path === "string" ? one.path.split(".") : [...(one.path ?? [])];
  let found: readonly unknown[] = [{ type, data }];
  for (const name of path) {
    found = found.flatMap((value) =>
      typeof value !== "object" || value === null
        ? []
        : Object.entries(value).flatMap(([key, inner]: [string, unknown]) => (key === name ? [inner] : [])),
    );
  }
  if (one.exists !== undefined) return one.exists === found.length > 0;
  const [value] = found;
  if (found.length === 0) return false;
  if (one.equals !== undefined) return typeof one.equals === typeof value && one.equals === value;
  if (one.in) return one.in.some((wanted) => wanted === value);
  if (one.prefix !== undefined) return typeof value === "string" && value.slice(0, one.prefix.length) === one.prefix;
  if (typeof value !== "number") return false;
  const { gt = -Infinity, gte = -Infinity, lt = Infinity, lte = Infinity } = one;
  return (one.gt === undefined || value > gt) && value >= gte && (one.lt === undefined || value < lt) && value <= lte;
}

/** Counts every look into the data. */
function counted(value: unknown, count: () => void): unknown {
  if (typeof value !== "object" || value === null) return value;
  const step =
    <A extends unknown[], R>(work: (...args: A) => R) =>
    (...args: A): R => {
      count();
      return work(...args);
    };
  return new Proxy(value, {
    get: (target, name) => {
      count();
      return counted(Reflect.get(target, name), count);
    },
    getOwnPropertyDescriptor: step(Reflect.getOwnPropertyDescriptor),
    has: step(Reflect.has),
    ownKeys: step(Reflect.ownKeys),
  });
}

describe("any filter on any data", () => {
  it("decides as a plain reading of the rules does, and says so in its report", () => {
    fc.assert(
      fc.property(filter, json, fc.constantFrom("a", "b", TYPE), (one, text, type) => {
        const data: unknown = JSON.parse(text);
        const expected = naive(one, type, data);
        expect(compileFilter(one).matches({ type, data })).toBe(expected);
        const report = reportFilter(one, { type, data });
        expect(report.matched).toBe(expected);
        expect(report.conditions.some(({ decided }) => decided)).toBe(true);
        // What is stored and read again is the same filter.
        expect(compileFilter(JSON.parse(JSON.stringify(one)) as Filter).matches({ type, data })).toBe(expected);
      }),
      { numRuns: 500 },
    );
  });

  it("looks into the data at most twice for each step of its cost", () => {
    fc.assert(
      fc.property(filter, json, (one, text) => {
        let looks = 0;
        const matcher = compileFilter(one);
        matcher.matches({ type: TYPE, data: counted(JSON.parse(text), () => looks++) });
        expect(looks).toBeLessThanOrEqual(2 * matcher.cost);
      }),
      { numRuns: 200 },
    );
  });
});

describe("the largest filter on the largest data", () => {
  const path = ["data", ...Array.from({ length: FILTER_BOUNDS.names - 1 }, () => "d")];
  // As many of the longest paths as 4 KiB hold.
  const worst: Filter = { and: Array.from({ length: 40 }, () => ({ not: { path, equals: 1 } })) };
  const deep = `${'{"d":'.repeat(64)}0${"}".repeat(64)}`;
  const wide = `{"x":[${"0,".repeat(120_000)}0],"d":{"d":[${"{},".repeat(4_000)}{}]}}`;

  it("takes as many steps as the filter has names, whatever the data", () => {
    expect(JSON.stringify(worst).length).toBeLessThanOrEqual(FILTER_BOUNDS.bytes);
    const matcher = compileFilter(worst);
    expect(matcher.cost).toBeLessThan(1_000);
    for (const text of [deep, wide, "null", "[]"]) {
      let looks = 0;
      expect(matcher.matches({ type: TYPE, data: counted(JSON.parse(text), () => looks++) })).toBe(true);
      expect(looks).toBeLessThanOrEqual(2 * matcher.cost);
    }
  });
});
