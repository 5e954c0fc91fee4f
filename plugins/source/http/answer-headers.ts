/** Reads request headers of a publication: Idempotency-Key and traceparent. */
import { hash } from "node:crypto";
import { Problem } from "../../../core/model/problem.ts";
import type { AcceptRequest } from "../../../core/ports/source.ts";
import type { PublishBody } from "./event-body.ts";
import type { PublishToken } from "./tokens.ts";

const VISIBLE = /^[\x21-\x7e]{1,128}$/;
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const LONGEST_TRACEPARENT = 256;

/**
 * Returns what identifies repeats of this request. The key is hashed, since it may contain any visible ASCII.
 * @throws Problem VALIDATION_FAILED
 */
export function idempotencyOf(
  header: string | undefined,
  { scope }: PublishToken,
  { bytes, format }: Pick<PublishBody, "bytes" | "format">,
): AcceptRequest["idempotency"] {
  if (header === undefined) return undefined;
  if (!VISIBLE.test(header)) {
    const errors = [{ path: "Idempotency-Key", message: "must be 1 to 128 characters of visible ASCII" }];
    throw new Problem("VALIDATION_FAILED", "Correct the Idempotency-Key header, or leave it out.", { errors });
  }
  return { scope, key: hash("sha256", header, "hex"), digest: `${format}-${hash("sha256", bytes, "hex")}` };
}

/** Returns the header unchanged if it is valid (https://www.w3.org/TR/trace-context/); a broken one is ignored. */
export function traceparentOf(header: string | undefined): string | undefined {
  if (header === undefined || header.length > LONGEST_TRACEPARENT) return undefined;
  const [, version, traceId, parentId, more] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && more !== undefined)) return undefined;
  return traceId === "0".repeat(32) || parentId === "0".repeat(16) ? undefined : header;
}
