/** Makes the event of a verified request: its id, type and key, and its body as `data`, byte for byte. */
import { hash } from "node:crypto";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { elements } from "../../../core/lib/json.ts";
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { isEventId, isKeyId } from "../../../core/model/names.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { binary, binaryAttributes, structured, typeName } from "../messages/cloud-event.ts";
import type { Arrived, Filled } from "./arrived.ts";

export interface Reading {
  readonly keyId: Filled;
  readonly type: Filled;
  readonly id: Filled;
  /** The headers that become a part of the data, in lower case. */
  readonly headers: readonly string[];
  readonly cloudEvents: boolean;
}

/** Bytes that are text are kept as such, a mark at their beginning too. */
const exact = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const TEXTUAL = /^text\/|[/+]xml$|^application\/x-www-form-urlencoded$/;

/**
 * Returns the events of a request, and the key that they are of.
 * @throws Problem when it can never be stored: the same request never works
 */
export function eventsOf(arrived: Arrived, reading: Reading): { keyId: string; publications: Publication[] } {
  // First, since nothing can be read of a body that is not what it says.
  const data = reading.cloudEvents ? "" : dataOf(arrived, reading.headers);
  const keyId = reading.keyId(arrived);
  if (keyId === undefined || !isKeyId(keyId)) throw wrong("keyId", "cannot be made of the request");
  if (reading.cloudEvents) return { keyId, publications: cloudEvents(arrived, keyId) };
  const type = reading.type(arrived);
  if (type === undefined) throw wrong("type", "cannot be made of the request");
  const id = reading.id(arrived);
  const defaults = { keyId, type: typeName(type.replaceAll("/", ".")), ...(id && { id: idOf(arrived, id) }) };
  return { keyId, publications: [{ text: `{"data":${data}}`, path: "", defaults }] };
}

/**
 * Puts the path in front of the provider's id, `in:stripe:evt_1`, as two providers may have the same one; a hash of it where that
 * is no event id. It is the same in each version, or a repeat would become a second event.
 */
function idOf({ request }: Arrived, id: string): string {
  const whole = `${request.path.slice(1).replaceAll("/", ":")}:${id}`;
  return isEventId(whole) ? whole : `in-${hash("sha256", whole, "hex").slice(0, 40)}`;
}

/** Writes the body as JSON: JSON as it is; of another body, its content type with its text, or with its bytes in base64. */
function dataOf(arrived: Arrived, headers: readonly string[]): string {
  const body = arrived.isJson ? jsonOf(arrived) : undefined;
  if (headers.length === 0 && body !== undefined) return body;
  const sent = headers.map((name) => [name, arrived.request.header(name)] as const);
  const along = headers.length === 0 ? {} : { headers: Object.fromEntries(sent) };
  if (body !== undefined) return `${JSON.stringify(along).slice(0, -1)},"body":${body}}`;
  const contentType = arrived.request.header("content-type");
  return JSON.stringify({ ...along, contentType, ...(textOf(arrived) ?? { base64: base64Of(arrived) }) });
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

function textOf({ mediaType, bytes }: Arrived): { text: string } | undefined {
  if (!TEXTUAL.test(mediaType)) return undefined;
  try {
    return { text: exact.decode(bytes) };
  } catch {
    return undefined;
  }
}

const base64Of = ({ bytes }: Arrived): string => Buffer.from(bytes).toString("base64");

const ATTRIBUTES = ["specversion", "id", "source", "type", "time", "subject", "relaykeyid"];
const BATCH = "application/cloudevents-batch+json";

/** Reads CloudEvents 1.0: one as a whole or with its attributes in the headers, or a list. @throws Problem */
function cloudEvents(arrived: Arrived, keyId: string): Publication[] {
  const { request, bytes, mediaType } = arrived;
  const defaults = { keyId };
  if (!mediaType.startsWith("application/cloudevents")) {
    const headers: Record<string, string> = {};
    for (const name of ATTRIBUTES) {
      const value = request.header(`ce-${name}`);
      if (value !== undefined) headers[`ce-${name}`] = value;
    }
    const attributes = binaryAttributes(headers, request.header("content-type"));
    if (attributes === undefined) throw new Problem("VALIDATION_FAILED", "The request holds no CloudEvent.");
    return [{ ...binary(attributes, bytes, defaults), path: "" }];
  }
  const text = jsonOf(arrived);
  if (mediaType !== BATCH) return [{ ...structured(text, defaults), path: "" }];
  const spans = elements(text, MAX_BATCH_EVENTS + 1) ?? [];
  return spans.map(({ start, end }, i) => ({ ...structured(text.slice(start, end), defaults), path: `[${i}]` }));
}

const wrong = (path: string, message: string): Problem =>
  new Problem("VALIDATION_FAILED", "The webhook makes no event: see the config.", { errors: [{ path, message }] });
