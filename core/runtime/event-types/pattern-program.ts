/**
 * Translates a regular expression into a program for `pattern.ts`, which runs it in linear time. A publisher chooses the
 * text that a schema's pattern is tried on, and the engine of JavaScript takes exponential time for some pairs of both.
 *
 * JSON Schema means the patterns of ECMA-262. The kept linear engine, re2js, gives RE2's meaning to `\s`, `.` and `\p{…}`, and cannot
 * be bounded over all patterns of a publication.
 */

/** Most steps of one program. Counted repetitions are written out. */
const MOST_STEPS = 2_000;
const MOST_CHARACTERS = 2_000;

/** Tells whether a step takes a character: one code point, or what a class or an escape stands for. */
export type Taker = number | RegExp;

type Assertion = "start" | "end" | "word" | "no word";

export type PatternStep =
  | { readonly op: "take"; readonly taker: number }
  | { readonly op: "assert"; readonly kind: Assertion }
  | { readonly op: "fork"; to: readonly number[] }
  | { readonly op: "match" };

interface PatternProgram {
  readonly steps: readonly PatternStep[];
  /** Each different taker once. */
  readonly takers: readonly Taker[];
  /** It can only match at the start of a text. */
  readonly anchored: boolean;
}

type Node =
  | { readonly op: "take"; readonly taker: number }
  | { readonly op: "assert"; readonly kind: Assertion }
  | { readonly op: "all" | "any"; readonly nodes: readonly Node[] }
  | { readonly op: "repeat"; readonly node: Node; readonly least: number; readonly most: number };

/** @throws Error that says in words why the pattern cannot be used */
export function patternProgram(pattern: string): PatternProgram {
  if (pattern.length > MOST_CHARACTERS) throw new Error(`has more than ${MOST_CHARACTERS} characters`);
  try {
    new RegExp(pattern, "u");
  } catch (error) {
    throw new Error(`is no regular expression: ${String((error as Error).message)}`, { cause: error });
  }
  const { node, takers } = parse(pattern);
  const steps: PatternStep[] = [];
  emit(node, steps);
  push(steps, { op: "match" });
  const anchored = node.op === "all" && node.nodes[0]?.op === "assert" && node.nodes[0].kind === "start";
  return { steps, takers, anchored };
}

/** Parses a pattern that is known to be valid. */
function parse(pattern: string): { readonly node: Node; readonly takers: readonly Taker[] } {
  const takers: Taker[] = [];
  const known = new Map<string, number>();
  let at = 0;

  function take(source: string, literal: boolean): Node {
    let taker = known.get(source);
    if (taker === undefined) {
      taker = takers.push(literal ? (source.codePointAt(0) as number) : new RegExp(`^${source}$`, "u")) - 1;
      known.set(source, taker);
    }
    return { op: "take", taker };
  }

  function upTo(end: number): Node {
    const source = pattern.slice(at, end);
    at = end;
    return take(source, false);
  }

  function any(): Node {
    const nodes = [all()];
    while (pattern[at] === "|") {
      at++;
      nodes.push(all());
    }
    return nodes.length === 1 ? (nodes[0] as Node) : { op: "any", nodes };
  }

  function all(): Node {
    const nodes: Node[] = [];
    while (at < pattern.length && pattern[at] !== "|" && pattern[at] !== ")") nodes.push(repeated(atom()));
    return { op: "all", nodes };
  }

  function atom(): Node {
    const first = String.fromCodePoint(pattern.codePointAt(at) as number);
    if (first === "^" || first === "$") {
      at++;
      return { op: "assert", kind: first === "^" ? "start" : "end" };
    }
    if (first === "(") return group();
    if (first === "[") return upTo(classEnd());
    if (first === "\\") return escape();
    if (first === ".") return upTo(at + 1);
    at += first.length;
    return take(first, true);
  }

  function group(): Node {
    at++;
    if (pattern[at] === "?") {
      const named = /^\?<(?![=!])[^>]*>/.exec(pattern.slice(at));
      if (named === null && pattern[at + 1] !== ":")
        throw new Error("has a look-around or flags, which are not supported");
      at += named === null ? 2 : named[0].length;
    }
    const node = any();
    at++;
    return node;
  }

  function classEnd(): number {
    let end = at + 1;
    while (pattern[end] !== "]") end += pattern[end] === "\\" ? 2 : 1;
    return end + 1;
  }

  function escape(): Node {
    const next = pattern[at + 1] as string;
    if (next === "b" || next === "B") {
      at += 2;
      return { op: "assert", kind: next === "b" ? "word" : "no word" };
    }
    if (/[1-9k]/.test(next)) throw new Error("refers back to a group, which is not supported");
    const rest = pattern.slice(at);
    const whole =
      /^\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|^\\[upP]\{[^}]*\}|^\\u[\da-fA-F]{4}|^\\x[\da-fA-F]{2}|^\\c[A-Za-z]/.exec(
        rest,
      );
    return upTo(at + (whole?.[0].length ?? 2));
  }

  function repeated(node: Node): Node {
    const found = /^(?:[*+?]|\{(\d+)(,(\d*))?\})\??/.exec(pattern.slice(at, at + 64));
    if (found === null) return node;
    at += found[0].length;
    const [sign = "", first, range, second] = found;
    if (first === undefined) {
      return {
        op: "repeat",
        node,
        least: sign[0] === "+" ? 1 : 0,
        most: sign[0] === "?" ? 1 : Number.POSITIVE_INFINITY,
      };
    }
    const least = Number(first);
    const most = range === undefined ? least : second === "" ? Number.POSITIVE_INFINITY : Number(second);
    return { op: "repeat", node, least, most };
  }

  return { node: any(), takers };
}

function push(steps: PatternStep[], step: PatternStep): number {
  if (steps.length >= MOST_STEPS)
    throw new Error(`is too large: its repetitions written out have more than ${MOST_STEPS} steps`);
  return steps.push(step) - 1;
}

/** Appends the steps of a node; they go on with whatever is appended next. */
function emit(node: Node, steps: PatternStep[]): void {
  switch (node.op) {
    case "take":
    case "assert":
      push(steps, node);
      return;
    case "all":
      for (const one of node.nodes) emit(one, steps);
      return;
    case "any": {
      const fork = push(steps, { op: "fork", to: [] });
      const begins: number[] = [];
      const ends: number[] = [];
      for (const one of node.nodes) {
        begins.push(steps.length);
        emit(one, steps);
        ends.push(push(steps, { op: "fork", to: [] }));
      }
      steps[fork] = { op: "fork", to: begins };
      for (const end of ends) steps[end] = { op: "fork", to: [steps.length] };
      return;
    }
    case "repeat":
      repeat(node, steps);
  }
}

function repeat({ node, least, most }: Extract<Node, { op: "repeat" }>, steps: PatternStep[]): void {
  const copies = Number.isFinite(most) ? most : least;
  // Also a copy without steps takes time.
  if (copies > MOST_STEPS) throw new Error(`repeats something more than ${MOST_STEPS} times`);
  for (let i = 0; i < least; i++) emit(node, steps);
  if (!Number.isFinite(most)) {
    const fork = push(steps, { op: "fork", to: [] });
    emit(node, steps);
    push(steps, { op: "fork", to: [fork] });
    steps[fork] = { op: "fork", to: [fork + 1, steps.length] };
    return;
  }
  const forks: number[] = [];
  for (let i = least; i < most; i++) {
    forks.push(push(steps, { op: "fork", to: [] }));
    emit(node, steps);
  }
  for (const fork of forks) steps[fork] = { op: "fork", to: [fork + 1, steps.length] };
}
