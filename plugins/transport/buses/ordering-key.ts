/** What a bus orders or spreads messages by. */
import { text } from "../../../core/ports/options.ts";
import type { TransportRequest } from "../../../core/ports/transport.ts";

/** The rule of the option. */
export const KEY = text("keyId, or a path such as data.customer.id", /^(?:keyId|data(?:\.[^.]+)*)$/);

/** Returns the value at the path as text; the key id where the event has none. */
export function keyOf(path: string, { keyId, body }: Pick<TransportRequest, "keyId" | "body">): string {
  if (path === "keyId") return keyId;
  let at: unknown;
  try {
    at = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8"));
  } catch {
    return keyId;
  }
  for (const part of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, part)) return keyId;
    at = (at as Readonly<Record<string, unknown>>)[part];
  }
  if (at === null || at === undefined) return keyId;
  return typeof at === "string" ? at : JSON.stringify(at);
}
