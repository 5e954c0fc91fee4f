/** The bodies of `/auth` requests and answers: flat JSON objects of known fields, and the envelope. */
import { duplicateNames, isTooDeep } from "../../../core/model/json.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isoTime } from "../../../core/model/time.ts";
import type { RouteReply, RouteRequest } from "../../../core/ports/plugin.ts";

/** Says what is wrong with a value; undefined when nothing is. */
export type LoginField = (value: unknown) => string | undefined;

/** Fields of a body; names that end in `?` may be left out. */
export type Fields = Readonly<Record<string, LoginField>>;

const MAX_BYTES = 8_192;
const read = new WeakMap<RouteRequest, Promise<unknown>>();

export const text =
  (min: number, max: number): LoginField =>
  (value) => {
    if (typeof value !== "string") return "must be text";
    return value.length < min || value.length > max ? `must be ${min} to ${max} characters long` : undefined;
  };

/**
 * The body, checked; unknown and missing fields are told together.
 * @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_JSON, VALIDATION_FAILED
 */
export async function readFields<T>(request: RouteRequest, fields: Fields): Promise<T> {
  const value = await readJson(request);
  const errors: FieldError[] = [];
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    errors.push({ path: "", message: "must be an object" });
  } else {
    const given = value as Readonly<Record<string, unknown>>;
    const names = Object.keys(fields).map((name) => name.replace("?", ""));
    for (const name of Object.keys(given))
      if (!names.includes(name)) errors.push({ path: name, message: "is not known" });
    for (const [name, check] of Object.entries(fields)) {
      const path = name.replace("?", "");
      if (!Object.hasOwn(given, path)) {
        if (!name.endsWith("?")) errors.push({ path, message: "is missing" });
        continue;
      }
      const message = check(given[path]);
      if (message !== undefined) errors.push({ path, message });
    }
  }
  if (errors.length > 0) throw new Problem("VALIDATION_FAILED", "Correct the fields that are listed.", { errors });
  return value as T;
}

/** Read once a request, however often it is asked for: limits look at it before the route does. */
export function readJson(request: RouteRequest): Promise<unknown> {
  let reading = read.get(request);
  if (reading === undefined) read.set(request, (reading = parse(request)));
  return reading;
}

async function parse(request: RouteRequest): Promise<unknown> {
  const [type = "", ...parameters] = (request.header("content-type") ?? "").toLowerCase().split(";");
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith("charset="));
  const utf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset);
  if (type.trim() !== "application/json" || !utf8 || request.header("content-encoding") !== undefined)
    throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send application/json, without Content-Encoding.");
  const bytes = await request.body(MAX_BYTES);
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!isTooDeep(json)) {
      const value: unknown = JSON.parse(json);
      const repeated = duplicateNames(json);
      if (repeated.length === 0) return value;
      const errors = repeated.map((path) => ({ path, message: "stands more than once" }));
      throw new Problem("VALIDATION_FAILED", "Give each name once.", { errors });
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
  }
  throw new Problem("INVALID_JSON", "Send valid JSON, in UTF-8, nested at most 64 levels deep.");
}

/** A success: `data` in the envelope. */
export function reply(data: unknown, now: number, headers: RouteReply["headers"] = {}, status = 200): RouteReply {
  const body = JSON.stringify({ data, meta: { timestamp: isoTime(now) } });
  return { status, headers: { "content-type": "application/json", ...headers }, body };
}
