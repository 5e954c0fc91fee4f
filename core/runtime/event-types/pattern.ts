/**
 * Compiles the patterns of schemas with RE2, which takes time that grows with the text alone: a publisher chooses the text, and the
 * engine of JavaScript takes exponential time for some pairs of both.
 */
import { RE2JS } from "re2js";

const MOST_CHARACTERS = 2_000;

interface Pattern {
  test(text: string): boolean;
  /** The pattern: Ajv compiles those of one text once. */
  toString(): string;
}

/** @throws Error that says in words why the pattern cannot be used */
export function createPattern(source: string): Pattern {
  if (source.length > MOST_CHARACTERS) throw new Error(`has more than ${MOST_CHARACTERS} characters`);
  try {
    new RegExp(source, "u");
  } catch (error) {
    throw new Error(`is no regular expression: ${(error as Error).message}`, { cause: error });
  }
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(source));
    return { test: (text) => compiled.test(text), toString: () => source };
  } catch (error) {
    throw new Error(`cannot be tried in linear time: ${(error as Error).message}`, { cause: error });
  }
}
