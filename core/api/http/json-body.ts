/** Reads management bodies strictly: it refuses what two parsers could read differently. */
import { duplicateNames, isTooDeep, MAX_DEPTH } from "../../lib/json.ts";
import { type FieldError, invalidFields, Problem } from "../../model/problem.ts";
import type { Call } from "./call.ts";

/** Longest management body, bytes. */
const MAX_BODY = 64 * 1024;

/** Longest path in an error, of which the end is kept. The client chooses the names, and each error repeats those around it. */
const LONGEST_PATH = 512;

const invalid = (detail: string): Problem => new Problem("INVALID_JSON", detail);

interface JsonBody {
  readonly value: unknown;
  /** The text that was sent, character for character. */
  readonly text: string;
}

/**
 * The body as JSON: UTF-8 without a byte order mark, nested at most 64 levels.
 * @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_JSON, VALIDATION_FAILED for names that repeat
 */
export async function readJson(call: Call): Promise<JsonBody> {
  checkMedia(call);
  const bytes = await call.body(MAX_BODY);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalid("The body must be UTF-8.");
  }
  if (isTooDeep(text)) throw invalid(`The body may be nested ${MAX_DEPTH} levels deep, no deeper.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid("Send valid JSON.");
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

function checkMedia(call: Call): void {
  const encoding = call.header("content-encoding");
  if (encoding !== undefined) throw unsupported("Send the body without Content-Encoding.");
  const [type = "", ...parameters] = (call.header("content-type") ?? "").split(";");
  const charsets = parameters.filter((one) => /^\s*charset\s*=/i.test(one));
  const utf8 = charsets.every((one) => /^\s*charset\s*=\s*"?utf-8"?\s*$/i.test(one));
  if (type.trim().toLowerCase() !== "application/json" || !utf8) {
    throw unsupported("Send Content-Type: application/json.");
  }
}

const unsupported = (detail: string): Problem =>
  new Problem("UNSUPPORTED_MEDIA_TYPE", detail, { headers: { Accept: "application/json" } });

/** @throws Problem NOT_ACCEPTABLE when `Accept` leaves out `type` */
export function checkAccept(call: Call, type: string): void {
  const accept = call.header("accept");
  if (accept === undefined || accept === "*/*") return;
  const [family = ""] = type.split("/");
  let best: { readonly precision: number; readonly taken: boolean } = { precision: -1, taken: accept.trim() === "" };
  for (const entry of accept.split(",")) {
    const [range = "", ...parameters] = entry.split(";").map((part) => part.trim().toLowerCase());
    const precision = [`*/*`, `${family}/*`, type].indexOf(range);
    if (precision <= best.precision || precision < 0) continue;
    const q = parameters.find((one) => one.startsWith("q="));
    best = { precision, taken: q === undefined || Number(q.slice(2)) > 0 };
  }
  if (!best.taken) throw new Problem("NOT_ACCEPTABLE", `Accept ${type}.`);
}
