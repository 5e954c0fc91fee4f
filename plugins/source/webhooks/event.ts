/** Makes the event of a verified request: its id, type and key, and its body as `data`, byte for byte. */
import { hash } from "node:crypto";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { isEventId } from "../../../core/model/names.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { typeName } from "../messages/cloud-event.ts";
import type { Arrived, Filled } from "./arrived.ts";

export interface Reading {
  readonly keyId: Filled;
  readonly type: Filled;
  readonly id: Filled;
  /** The headers that become a part of the data, in lower case. */
  readonly headers: readonly string[];
}

const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const TEXTUAL = /^text\/|[/+]xml$|^application\/x-www-form-urlencoded$/;

/** @throws Problem when the request can never be stored */
export function eventOf(arrived: Arrived, reading: Reading): Publication {
  // First, since nothing can be read of a body that is not what it says.
  const data = dataOf(arrived, reading.headers);
  const keyId = reading.keyId(arrived);
  if (keyId === undefined) throw unmade("keyId");
  const type = reading.type(arrived);
  if (type === undefined) throw unmade("type");
  const id = reading.id(arrived);
  const defaults = { keyId, type: typeName(type.replaceAll("/", ".")), ...(id && { id: idOf(arrived, id) }) };
  return { text: `{"data":${data}}`, path: "", defaults };
}

/** Returns path, however it is spelled, and id, as providers may share ids; a hash where that is no event id. A change here makes repeats into second events. */
function idOf({ request }: Arrived, id: string): string {
  const whole = `${decodeURIComponent(request.path).slice(1).replaceAll("/", ":")}:${id}`;
  return isEventId(whole) ? whole : `in-${hash("sha256", whole, "hex").slice(0, 40)}`;
}

/** Writes the body as JSON: JSON as it is; of another body, its content type with its text, or with its bytes in base64. */
function dataOf(arrived: Arrived, names: readonly string[]): string {
  const { request, isJson } = arrived;
  const headers = Object.fromEntries(names.map((name) => [name, request.header(name)]));
  const along = names.length === 0 ? {} : { headers };
  if (!isJson) return JSON.stringify({ ...along, contentType: request.header("content-type"), ...plainOf(arrived) });
  const body = jsonOf(arrived);
  return names.length === 0 ? body : `{"headers":${JSON.stringify(headers)},"body":${body}}`;
}

/** Its text becomes a part of a larger one, so it must be one whole value. @throws Problem INVALID_JSON */
function jsonOf(arrived: Arrived): string {
  if (arrived.bytes.length === 0) return "null";
  try {
    void arrived.json;
    return arrived.text;
  } catch (error) {
    const why = error instanceof SyntaxError ? faultIn(arrived.text) : "it is not UTF-8";
    throw new Problem("INVALID_JSON", `The body is not valid JSON (${why}).`);
  }
}

function plainOf({ mediaType, bytes }: Arrived): { readonly text: string } | { readonly base64: string } {
  try {
    if (TEXTUAL.test(mediaType)) return { text: exact.decode(bytes) };
  } catch {} // It says that it is text, and is in another encoding.
  return { base64: Buffer.from(bytes).toString("base64") };
}

const unmade = (path: string): Problem =>
  new Problem("VALIDATION_FAILED", "The webhook makes no event: see the config.", {
    errors: [{ path, message: "cannot be made of the request" }],
  });
