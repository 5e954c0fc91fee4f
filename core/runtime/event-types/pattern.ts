/**
 * Tries patterns on texts in time that grows with the text alone: it follows every way through the program at once, and
 * remembers where each character leads.
 */
import { patternProgram, type PatternStep, type Taker } from "./pattern-program.ts";

/** What all patterns of a config share, so that their number does not multiply what a publisher can make them take. */
export interface PatternBudget {
  /** Steps that the tries of this publication may still take. A try that finds none left does not match. */
  left: number;
  /** Places and transitions that they remember. */
  remembered: number;
  /** Has each of them forget what it remembers. */
  readonly forget: (() => void)[];
}

export const patternBudget = (left = Number.POSITIVE_INFINITY): PatternBudget => ({ left, remembered: 0, forget: [] });

interface Pattern {
  test(text: string): boolean;
  /** The pattern: what tells it from others. */
  toString(): string;
}

/** Places in a program, and what stood before them. */
interface State {
  readonly places: readonly number[];
  readonly before: Before;
  /** The state behind a code point, or whether the text matches there. */
  readonly next: Map<number, State | boolean>;
}

type Before = "start" | "word" | "other";

/** Most places and transitions that are remembered, about 20 MB; beyond that all patterns begin again. */
const REMEMBERED = 200_000;
const END = -1;

const isWord = (code: number): boolean =>
  (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122);

/** @throws Error that says in words why the pattern cannot be used */
export function createPattern(source: string, budget: PatternBudget): Pattern {
  const { steps, takers, anchored } = patternProgram(source);
  let states = new Map<string, State>();
  budget.forget.push(() => (states = new Map()));

  function stateOf(places: readonly number[], before: Before): State {
    const key = `${before}:${places.join()}`;
    let state = states.get(key);
    if (state === undefined) {
      states.set(key, (state = { places, before, next: new Map() }));
      budget.remembered += places.length + 1;
    }
    return state;
  }

  /** Where one code point leads: another state, or `true` for a match and `false` for none ever. */
  function advance(state: State, code: number): State | boolean {
    const reached = closure(steps, state, code);
    budget.left -= reached.seen;
    if (reached.matched) return true;
    if (code === END) return false;
    const takes = new Map<number, boolean>();
    const places = new Set<number>();
    for (const at of reached.taking) {
      const { taker } = steps[at] as Extract<PatternStep, { op: "take" }>;
      let taken = takes.get(taker);
      if (taken === undefined) {
        takes.set(taker, (taken = doesTake(takers[taker] as Taker, code)));
        budget.left -= 4;
      }
      if (taken) places.add(at + 1);
    }
    if (!anchored) places.add(0);
    if (places.size === 0) return false;
    return stateOf(
      [...places].sort((a, b) => a - b),
      isWord(code) ? "word" : "other",
    );
  }

  function follow(state: State, code: number): State | boolean {
    budget.left--;
    const known = state.next.get(code);
    if (known !== undefined) return known;
    if (budget.remembered > REMEMBERED) {
      for (const forget of budget.forget) forget();
      budget.remembered = 0;
      // What is still held of the old states must not grow either.
      state.next.clear();
    }
    const next = advance(state, code);
    state.next.set(code, next);
    budget.remembered++;
    return next;
  }

  return {
    test(text) {
      let state: State | boolean = stateOf([0], "start");
      for (let i = 0; i < text.length && typeof state !== "boolean";) {
        if (budget.left <= 0) return false;
        const code = text.codePointAt(i) as number;
        state = follow(state, code);
        i += code > 0xffff ? 2 : 1;
      }
      return typeof state === "boolean" ? state : follow(state, END) === true;
    },
    toString: () => source,
  };
}

const doesTake = (taker: Taker, code: number): boolean =>
  typeof taker === "number" ? taker === code : taker.test(String.fromCodePoint(code));

/** Every step that is reached from a state without taking a character, where `code` comes next. */
function closure(steps: readonly PatternStep[], { places, before }: State, code: number) {
  const border = (before === "word") !== (code !== END && isWord(code));
  const holds = { start: before === "start", end: code === END, word: border, "no word": !border } as const;
  const seen = new Set<number>(places);
  const taking: number[] = [];
  let matched = false;
  // A set that grows while it is walked is walked to its new end.
  for (const at of seen) {
    const step = steps[at] as PatternStep;
    if (step.op === "match") matched = true;
    else if (step.op === "take") taking.push(at);
    else if (step.op === "fork") for (const to of step.to) seen.add(to);
    else if (holds[step.kind]) seen.add(at + 1);
  }
  return { taking, matched, seen: seen.size };
}
