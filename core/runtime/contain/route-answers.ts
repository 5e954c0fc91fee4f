/** Judges what a route of a plug-in answers, before an HTTP answer is made of it: half of one cannot be taken back. */
import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Identified, RouteReply } from "../../ports/route.ts";

/** The server frames the answer itself. A second length lets a proxy in front read the next answer out of this one. */
const FRAMING: ReadonlySet<string> = new Set(["content-length", "transfer-encoding"]);

/** @throws Error when no HTTP answer can be made of it */
export function replyOf(given: RouteReply): RouteReply {
  const { status, headers, body } = (given ?? {}) as RouteReply;
  if (!Number.isInteger(status) || status < 200 || status > 599) throw new Error("its answer has no status");
  if (body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array))
    throw new Error("the body of its answer is neither text nor bytes");
  if (headers !== undefined) for (const [name, value] of Object.entries(headers)) checkHeader(name, value);
  return { status, ...(headers !== undefined && { headers }), ...(body !== undefined && { body }) };
}

/** @throws Error */
function checkHeader(name: string, value: unknown): void {
  validateHeaderName(name);
  if (FRAMING.has(name.toLowerCase())) throw new Error(`its answer sets ${name}, which the server does`);
  for (const one of Array.isArray(value) ? (value as readonly unknown[]) : [value]) {
    if (typeof one !== "string") throw new Error(`its answer has a header that is no text: ${name}`);
    validateHeaderValue(name, one);
  }
}

/** @throws Error when it says nothing of who is to be counted, or of what that one may do */
export function callerOf(found: Identified): Identified {
  const { counted, access, caller } = (found ?? {}) as Identified;
  const names: readonly unknown[] = Array.isArray(counted) ? counted : [counted];
  if (names.length === 0 || !names.every((name) => typeof name === "string"))
    throw new Error("its identify names nobody to be counted");
  if (access !== undefined && access !== "read" && access !== "manage")
    throw new Error("its identify has an access that is none");
  return { counted, caller, ...(access !== undefined && { access }) };
}
