/** The line of a delivery, as files and archives keep it. */
import { isUtf8 } from "node:buffer";
import { isoTime } from "../../../core/lib/time.ts";
import type { TransportRequest } from "../../../core/ports/transport.ts";

/** Makes the line of a delivery. The body is text as it was signed; bytes that are no text stand in base64. @param now epoch ms */
export function lineOf({ messageId, headers, body }: TransportRequest, now: number): Buffer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const payload = isUtf8(bytes) ? { body: bytes.toString("utf8") } : { bodyBase64: bytes.toString("base64") };
  return Buffer.from(`${JSON.stringify({ at: isoTime(now), messageId, headers, ...payload })}\n`);
}
