/** Reads the bodies of `/auth` requests. */
import type { z } from "zod";
import { fieldErrors, invalidFields, Problem } from "../../../core/model/problem.ts";
import { duplicateNames, isTooDeep } from "../../../core/lib/json.ts";
import type { RouteRequest } from "../../../core/ports/route.ts";

const MAX_BYTES = 8_192;

/**
 * Reads and checks the body, with the schema that also documents it.
 * @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_JSON, VALIDATION_FAILED with every problem at once
 */
export const readLoginBody = async <T>(request: RouteRequest, schema: z.ZodType<T>): Promise<T> =>
  checked(await readLoginJson(request), schema);

/** @throws Problem VALIDATION_FAILED with every problem at once */
export function checked<T>(value: unknown, schema: z.ZodType<T>): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalidFields(fieldErrors(result.error.issues));
}

/** @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_JSON, VALIDATION_FAILED for names that repeat */
export async function readLoginJson(request: RouteRequest): Promise<unknown> {
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
      const errors = repeated.map((path) => ({ path, message: "is given more than once" }));
      throw new Problem("VALIDATION_FAILED", "Give each name once.", { errors });
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
  }
  throw new Problem("INVALID_JSON", "Send valid JSON, in UTF-8, nested at most 64 levels deep.");
}
