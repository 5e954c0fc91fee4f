/** Reads JSON that somebody sends strictly: it refuses what two parsers could read differently. */
import { faultIn } from "../lib/json-fault.ts";
import { duplicateNames, isTooDeep, MAX_DEPTH, utf8 } from "../lib/json.ts";
import { type FieldError, invalidFields, Problem } from "./problem.ts";

/** Longest path in an error, of which the end is kept. The client chooses the names, and each error repeats those around it. */
const LONGEST_PATH = 512;

const invalid = (detail: string): Problem => new Problem("INVALID_JSON", detail);

interface JsonBody {
  readonly value: unknown;
  /** The text that was sent, character for character. */
  readonly text: string;
}

/**
 * Reads a body of UTF-8, nested at most 64 levels.
 * @throws Problem INVALID_JSON, VALIDATION_FAILED for names that repeat, or that objects cannot have
 */
export function jsonBody(bytes: Uint8Array): JsonBody {
  const text = bodyText(bytes);
  if (isTooDeep(text)) throw invalid(`The body may be nested ${MAX_DEPTH} levels deep, no deeper.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid(`Send valid JSON: see ${faultIn(text)}.`);
  }
  const repeated = duplicateNames(text);
  if (repeated.length > 0) {
    const errors = repeated.map((path) => ({ path, message: "is given more than once" }));
    throw new Problem("VALIDATION_FAILED", "Give each name once.", { errors });
  }
  // The name may be written with escapes; nearly no body has any.
  const errors = /__proto__|\\u/.test(text) ? unnameable(value, "") : [];
  if (errors.length > 0) throw invalidFields(errors);
  return { value, text };
}

/** @throws Problem INVALID_JSON for bytes that are not UTF-8 */
export function bodyText(bytes: Uint8Array, what = "body"): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalid(`The ${what} must be UTF-8.`);
  }
}

/** Returns the media type in lower case, without parameters; `undefined` for another encoding than UTF-8. */
export function mediaType(contentType = ""): string | undefined {
  const [type = "", ...parameters] = contentType.toLowerCase().split(";");
  const utf8 = parameters.every((one) => !/^\s*charset\s*=/.test(one) || /=\s*"?utf-?8"?\s*$/.test(one));
  return utf8 ? type.trim() : undefined;
}

/** Finds `__proto__` as a name: objects cannot hold it like others, so it would vanish instead of being refused. */
function unnameable(value: unknown, path: string): readonly FieldError[] {
  if (typeof value !== "object" || value === null) return [];
  const inside = (part: string): string =>
    (Array.isArray(value) ? `${path}[${part}]` : path === "" ? part : `${path}.${part}`).slice(-LONGEST_PATH);
  return Object.entries(value).flatMap(([name, one]) => [
    ...(name === "__proto__" ? [{ path: inside(name), message: "is not known" }] : []),
    ...unnameable(one, inside(name)),
  ]);
}
