/** Reads the bytes of a payload as text. What is no text is refused: a signed body must be what was published. */
import { Problem } from "../../../core/model/problem.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws Problem INVALID_JSON for bytes that are not UTF-8 */
export function payloadText(payload: Uint8Array | string): string {
  if (typeof payload === "string") return payload;
  try {
    return decoder.decode(payload);
  } catch {
    throw new Problem("INVALID_JSON", "The payload is not valid UTF-8.");
  }
}
