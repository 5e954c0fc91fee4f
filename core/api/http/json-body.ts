/** Reads management bodies. */
import { jsonBody, mediaType } from "../../model/json-body.ts";
import { Problem } from "../../model/problem.ts";
import type { Call } from "./call.ts";

/** Longest management body, bytes. */
const MAX_BODY = 64 * 1024;

/** @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, and as `jsonBody` */
export async function readJson(call: Call): Promise<ReturnType<typeof jsonBody>> {
  if (call.header("content-encoding") !== undefined) throw unsupported("Send the body without Content-Encoding.");
  if (mediaType(call.header("content-type")) !== "application/json")
    throw unsupported("Send Content-Type: application/json.");
  return jsonBody(await call.body(MAX_BODY));
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
