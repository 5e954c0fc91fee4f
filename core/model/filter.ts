/**
 * A filter: conditions on the type and the data of an event, which a subscription may set beside its event names. It is
 * judged once, when an event is accepted.
 *
 * A judgement takes at most `cost` steps, whatever the data: each condition follows one path of own properties, and
 * there are no patterns to match. So neither a hostile filter nor hostile data can make it slow.
 */

/** A value that a condition compares with. Strings compare exactly, numbers as IEEE 754 doubles. */
export type FilterValue = string | number | boolean | null;

/** `type`, or a path that begins with `data`. As text, its names are separated by dots. */
export type FilterPath = string | readonly string[];

/**
 * Either a group (`and`, `or` or `not` alone), or a condition: a `path` with one of `equals`, `in`, `exists` and
 * `prefix`, or with the bounds of a range of numbers.
 */
export interface Filter {
  readonly and?: readonly Filter[];
  readonly or?: readonly Filter[];
  readonly not?: Filter;
  readonly path?: FilterPath;
  readonly equals?: FilterValue;
  readonly in?: readonly FilterValue[];
  /** True matches where there is a value at the path. `null` is a value. */
  readonly exists?: boolean;
  /** The beginning of a string. */
  readonly prefix?: string;
  readonly gt?: number;
  readonly gte?: number;
  readonly lt?: number;
  readonly lte?: number;
}

/** The bounds of a filter. `bytes` is the length of its JSON. */
export const FILTER_BOUNDS = { bytes: 4_096, depth: 8, nodes: 64, values: 100, names: 16, nameLength: 128 } as const;

/** The part of an event that a filter judges: the type of an event, and its data as `JSON.parse` reads it. */
export interface FilteredEvent {
  readonly type: string;
  readonly data: unknown;
}

/** A filter that is ready to judge. */
export interface Matcher {
  /** Most steps of one judgement: a node of the filter, or a name of a path, is one. */
  readonly cost: number;
  matches(event: FilteredEvent): boolean;
}

export const namesOf = (path: FilterPath): readonly string[] => (typeof path === "string" ? path.split(".") : path);

/** An item of a list is named by its position. */
const POSITION = /^(?:0|[1-9]\d{0,8})$/;

/**
 * Returns the value at a path; `undefined` when there is none, which no JSON value is. Only own properties count, so
 * `__proto__` and `constructor` are names like others.
 */
export function valueAt(names: readonly string[], { type, data }: FilteredEvent): unknown {
  if (names[0] === "type") return names.length === 1 ? type : undefined;
  if (names[0] !== "data") return undefined;
  let at = data;
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string;
    if (typeof at !== "object" || at === null) return undefined;
    if (Array.isArray(at) && !POSITION.test(name)) return undefined;
    if (!Object.hasOwn(at, name)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return at;
}

/** Returns the test of a condition's value. @throws SyntaxError when it has none */
function testOf(condition: Filter): (value: unknown) => boolean {
  const { equals, in: any, exists, prefix } = condition;
  if (equals !== undefined) return (value) => value === equals;
  if (any !== undefined) {
    const values = new Set<unknown>(any);
    return (value) => values.has(value);
  }
  if (exists !== undefined) return (value) => (value !== undefined) === exists;
  if (prefix !== undefined) return (value) => typeof value === "string" && value.startsWith(prefix);
  const { gt, gte, lt, lte } = condition;
  if (gt === undefined && gte === undefined && lt === undefined && lte === undefined)
    throw new SyntaxError("a condition of a filter compares with nothing");
  return (value) =>
    typeof value === "number" &&
    (gt === undefined || value > gt) &&
    (gte === undefined || value >= gte) &&
    (lt === undefined || value < lt) &&
    (lte === undefined || value <= lte);
}

/** @throws SyntaxError when it is no filter */
export function compileFilter(filter: Filter): Matcher {
  const { and, or, not, path } = filter;
  if (and !== undefined) return group(and, (all) => (event) => all.every((one) => one.matches(event)));
  if (or !== undefined) return group(or, (all) => (event) => all.some((one) => one.matches(event)));
  if (not !== undefined)
    return group(
      [not],
      ([one]) =>
        (event) =>
          one?.matches(event) === false,
    );
  if (path === undefined) throw new SyntaxError("a part of a filter is neither a group nor a condition");
  const names = namesOf(path);
  const test = testOf(filter);
  return { cost: 1 + names.length, matches: (event) => test(valueAt(names, event)) };
}

function group(of: readonly Filter[], join: (all: readonly Matcher[]) => Matcher["matches"]): Matcher {
  const all = of.map(compileFilter);
  return { cost: all.reduce((sum, { cost }) => sum + cost, 1), matches: join(all) };
}

interface ConditionReport {
  /** Where the condition stands in the filter: `filter.and[1].not`. */
  readonly at: string;
  readonly condition: Filter;
  readonly matched: boolean;
  /** True when the outcome of the whole filter follows from it: had these been the other way, so might be the outcome. */
  readonly decided: boolean;
  /** The JSON of the value at the path, cut off when it is long; `missing`, `a list` or `an object` without quotes. */
  readonly found: string;
}

interface FilterReport {
  readonly matched: boolean;
  /** Every condition, in the order of the filter. */
  readonly conditions: readonly ConditionReport[];
}

/** Characters shown of a string. */
const SHOWN = 120;

interface Node {
  readonly filter: Filter;
  readonly at: string;
  readonly matched: boolean;
  readonly found: string;
  readonly of: readonly Node[];
}

/** @throws SyntaxError when it is no filter */
export function reportFilter(filter: Filter, event: FilteredEvent): FilterReport {
  const root = judge(filter, "filter", event);
  const decided = new Set<Node>();
  decide(root, decided);
  const conditions: ConditionReport[] = [];
  list(root, decided, conditions);
  return { matched: root.matched, conditions };
}

function judge(filter: Filter, at: string, event: FilteredEvent): Node {
  const { and, or, not, path } = filter;
  const parts = (name: string, all: readonly Filter[]) => all.map((one, i) => judge(one, `${at}.${name}[${i}]`, event));
  const node = (matched: boolean, of: readonly Node[]): Node => ({ filter, at, matched, found: "", of });
  if (and !== undefined) {
    const of = parts("and", and);
    return node(
      of.every(({ matched }) => matched),
      of,
    );
  }
  if (or !== undefined) {
    const of = parts("or", or);
    return node(
      of.some(({ matched }) => matched),
      of,
    );
  }
  if (not !== undefined) {
    const one = judge(not, `${at}.not`, event);
    return node(!one.matched, [one]);
  }
  const value = valueAt(namesOf(path ?? []), event);
  return { filter, at, matched: testOf(filter)(value), found: foundText(value), of: [] };
}

/** A group is as it is because of those of its parts that alone would make it so, or else because of all. */
function decide(node: Node, decided: Set<Node>): void {
  if (node.of.length === 0) decided.add(node);
  const because = node.filter.not === undefined ? node.of.filter(({ matched }) => matched === node.matched) : node.of;
  for (const one of because) decide(one, decided);
}

function list(node: Node, decided: ReadonlySet<Node>, into: ConditionReport[]): void {
  const { filter: condition, at, matched, found, of } = node;
  if (of.length === 0) into.push({ at, condition, matched, decided: decided.has(node), found });
  for (const one of of) list(one, decided, into);
}

function foundText(value: unknown): string {
  if (value === undefined) return "missing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value === "string" && value.length > SHOWN) return `${JSON.stringify(value.slice(0, SHOWN))}…`;
  // JSON can say a number that is too large for a double, and would write it as null.
  return Number.isFinite(value) || typeof value !== "number" ? JSON.stringify(value) : String(value);
}
