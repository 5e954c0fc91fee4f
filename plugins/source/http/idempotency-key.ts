/** Reads the header Idempotency-Key of a publish request. */
import { hash } from "node:crypto";
import { Problem } from "../../../core/model/problem.ts";
import type { AcceptRequest } from "../../../core/ports/source.ts";
import type { PublishBody } from "./event-body.ts";
import type { PublishToken } from "./tokens.ts";

const VISIBLE = /^[\x21-\x7e]{1,128}$/;

/**
 * Returns what identifies repeats of this request. The key is hashed, since it may contain any visible ASCII.
 * @throws Problem VALIDATION_FAILED
 */
export function idempotencyOf(
  header: string,
  { scope }: PublishToken,
  { bytes, format }: Pick<PublishBody, "bytes" | "format">,
): AcceptRequest["idempotency"] {
  if (!VISIBLE.test(header)) {
    const errors = [{ path: "Idempotency-Key", message: "must be 1 to 128 characters of visible ASCII" }];
    throw new Problem("VALIDATION_FAILED", "Correct the Idempotency-Key header, or leave it out.", { errors });
  }
  return { scope, key: hash("sha256", header, "hex"), digest: `${format}-${hash("sha256", bytes, "hex")}` };
}
