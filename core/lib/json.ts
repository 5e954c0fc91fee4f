/**
 * Scans JSON text: where values stand, which names repeat, how deep it nests. It builds nothing and never throws. On
 * text that is not JSON its answers mean nothing, so callers also let `JSON.parse` check the same text.
 */

/**
 * Reads the bytes of a text that comes from outside, without the byte order mark that some editors, shells and clients put in front.
 * Bytes that are not UTF-8 are refused (ERR_ENCODING_INVALID_ENCODED_DATA), never replaced: a signed body must be what was published.
 */
export const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Returns a text that is decoded already without the mark. */
export const unmarked = (text: string): string => (text.charCodeAt(0) === MARK ? text.slice(1) : text);

/** The deepest nesting that the relay accepts: an object or array at the top is level 1. */
export const MAX_DEPTH = 64;

/** A member of an object: its name with escapes resolved, and where the raw text of its value stands. */
interface JsonMember {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** Where a piece of text stands: `[start, end)`. */
interface JsonSpan {
  readonly start: number;
  readonly end: number;
}

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_ARRAY = 91;
const BACKSLASH = 92;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9;

/** Returns the first place from `at` on that is not JSON white space. */
export function skipSpace(text: string, at: number): number {
  let i = at;
  while (isSpace(text.charCodeAt(i))) i++;
  return i;
}

const NEWLINE = 10;
const MARK = 0xfeff;

/**
 * Yields the lines of NDJSON with their numbers, from 1. Left out are empty lines, and the byte order marks in front of others:
 * files that were put together have both. A text of nothing else costs 1 ns a character.
 */
export function* lines(text: string): Generator<{ readonly number: number; readonly text: string }, void> {
  let number = 1;
  for (let i = 0; i < text.length;) {
    const code = text.charCodeAt(i);
    if (isSpace(code) || code === MARK) {
      if (code === NEWLINE) number++;
      i++;
      continue;
    }
    const newline = text.indexOf("\n", i);
    const end = newline < 0 ? text.length : newline;
    yield { number, text: text.slice(i, end) };
    i = end;
  }
}

/** Returns the place after the string whose opening quote stands at `at`. */
function skipString(text: string, at: number): number {
  let quote = text.indexOf('"', at + 1);
  while (quote >= 0) {
    // A quote after an odd number of backslashes is part of the string. Each backslash is read only once.
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}

/** Returns the place after the value that starts at `at`; `-1` when it nests deeper than `room` levels. */
function skipValue(text: string, at: number, room: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return skipString(text, at);
  let depth = 0;
  let i = at;
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = skipString(text, i) - 1;
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (++depth > room) return -1;
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      if (--depth < 0) return i; // the value was a bare word: this closes its parent
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (code === COMMA || isSpace(code))) {
      return i;
    }
  }
  return i;
}

/** Returns the text of a string literal between its quotes, with escapes resolved; unchanged when it is no valid string. */
function literal(text: string, start: number, end: number): string {
  const inside = text.slice(start + 1, end - 1);
  if (!inside.includes("\\")) return inside;
  try {
    return JSON.parse(text.slice(start, end)) as string;
  } catch {
    return inside;
  }
}

type Members = readonly JsonMember[] | "too deep" | "not an object";

/** Returns an object's members in order, with repeated names, at 1 ns a character. Stops beyond `maxDepth`. */
export function members(text: string, maxDepth: number = MAX_DEPTH): Members {
  let i = skipSpace(text, 0);
  if (text.charCodeAt(i) !== OPEN_OBJECT) return isTooDeep(text, maxDepth) ? "too deep" : "not an object";
  const found: JsonMember[] = [];
  i = skipSpace(text, i + 1);
  while (text.charCodeAt(i) === QUOTE) {
    const nameEnd = skipString(text, i);
    const name = literal(text, i, nameEnd);
    i = skipSpace(text, nameEnd);
    if (text.charCodeAt(i) !== COLON) break;
    const start = skipSpace(text, i + 1);
    const end = skipValue(text, start, maxDepth - 1);
    if (end < 0) return "too deep";
    found.push({ name, start, end });
    i = skipSpace(text, end);
    if (text.charCodeAt(i) !== COMMA) break;
    i = skipSpace(text, i + 1);
  }
  return found;
}

/** True when objects and arrays nest more than `maxDepth` levels. Safe on any text. */
export function isTooDeep(text: string, maxDepth: number = MAX_DEPTH): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = skipString(text, i) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (++depth > maxDepth) return true;
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth--;
  }
  return false;
}

/**
 * Returns the spans of the items of the array in `text`, without the white space around them; `undefined` when it is
 * not framed as an array. Items are what lies between the commas of its level: the array is valid JSON exactly when
 * each of them is.
 * @param limit stops after this many: one more than allowed shows "too many" without reading on
 */
export function elements(text: string, limit = Infinity): readonly JsonSpan[] | undefined {
  const open = skipSpace(text, 0);
  if (text.charCodeAt(open) !== OPEN_ARRAY) return undefined;
  const found: JsonSpan[] = [];
  let start = skipSpace(text, open + 1);
  let depth = 1;
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = skipString(text, i) - 1;
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      depth++;
    } else if (code === COMMA) {
      if (depth > 1) continue;
      found.push({ start, end: trimEnd(text, start, i) });
      if (found.length >= limit) return found;
      start = skipSpace(text, i + 1);
      i = start - 1;
    } else if ((code === CLOSE_OBJECT || code === CLOSE_ARRAY) && --depth === 0) {
      if (code !== CLOSE_ARRAY || skipSpace(text, i + 1) !== text.length) return undefined;
      const end = trimEnd(text, start, i);
      if (found.length > 0 || end > start) found.push({ start, end });
      return found;
    }
  }
  return undefined;
}

function trimEnd(text: string, start: number, end: number): number {
  let i = end;
  while (i > start && isSpace(text.charCodeAt(i - 1))) i--;
  return i;
}

/**
 * Returns paths of names that occur more than once in one object, at any level: `url`, `retry.attempts`,
 * `list[2].name`. Names are compared with their escapes resolved. Levels beyond `MAX_DEPTH` are not read. Of very many
 * the first ones are returned, and of long paths the end: the answer stays short, whatever the text is.
 */
export function duplicateNames(text: string): readonly string[] {
  const found = new Set<string>();
  collect(text, "", MAX_DEPTH, found);
  return [...found];
}

/** More would only cost time: each path repeats the names around it. */
const MOST_FOUND = 100;
const LONGEST_PATH = 512;

function collect(text: string, path: string, room: number, found: Set<string>): void {
  if (room <= 0 || found.size >= MOST_FOUND) return;
  const first = text.charCodeAt(skipSpace(text, 0));
  if (first === OPEN_ARRAY) {
    const items = elements(text) ?? [];
    for (const [i, { start, end }] of items.entries())
      collect(text.slice(start, end), `${path}[${i}]`, room - 1, found);
  } else if (first === OPEN_OBJECT) {
    const all = members(text, room);
    if (typeof all === "string") return;
    const names = new Set<string>();
    for (const { name, start, end } of all) {
      const here = (path === "" ? name : `${path}.${name}`).slice(-LONGEST_PATH);
      if (names.has(name) && found.size < MOST_FOUND) found.add(here);
      names.add(name);
      collect(text.slice(start, end), here, room - 1, found);
    }
  }
}
