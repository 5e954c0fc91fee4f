/** Says why a filter matched an event or did not: each condition with what it found, and those that decided. */
import { namesOf, testOf, valueAt, type Filter, type FilteredEvent } from "./filter.ts";

interface ConditionReport {
  /** Where the condition stands in the filter: `filter.and[1].not`. */
  readonly at: string;
  readonly condition: Filter;
  readonly matched: boolean;
  /** Whether the outcome of the whole filter follows from it: had these been the other way, so might be the outcome. */
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
