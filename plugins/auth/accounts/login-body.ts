/** Reads the bodies of `/auth` requests. */
import type { z } from "zod";
import { jsonBody, mediaType } from "../../../core/model/json-body.ts";
import { fieldErrors, invalidFields, Problem } from "../../../core/model/problem.ts";
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
  const type = mediaType(request.header("content-type"));
  if (type !== "application/json" || request.header("content-encoding") !== undefined)
    throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send application/json, without Content-Encoding.");
  return jsonBody(await request.body(MAX_BYTES)).value;
}
