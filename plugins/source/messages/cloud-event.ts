/**
 * Reads CloudEvents 1.0 (https://github.com/cloudevents/spec), in structured mode, where the payload is the event, and in
 * binary mode, where headers hold the attributes and the payload is the data.
 */
import { hash } from "node:crypto";
import { members } from "../../../core/lib/json.ts";
import { isEventId, isEventName, isKeyId } from "../../../core/model/names.ts";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { payloadText } from "./message.ts";

type Attributes = Readonly<Record<string, unknown>>;
type Event = Omit<Publication, "path">;

/** The headers' beginnings of the bindings: HTTP and NATS, Kafka, AMQP. In lower case. */
const PREFIXES = ["ce-", "ce_", "cloudevents:", "cloudevents_"];
const VERSIONS = PREFIXES.map((prefix) => [prefix, `${prefix}specversion`] as const);
const JSON_TYPE = /[/+]json\s*(?:;|$)/i;

/** True for a text with `specversion` among the fields of its top level. */
export function isCloudEvent(text: string): boolean {
  if (!text.includes('"specversion"')) return false;
  const all = members(text);
  return typeof all !== "string" && all.some(({ name }) => name === "specversion");
}

/** @throws Problem INVALID_JSON or VALIDATION_FAILED */
export function structured(text: string, defaults: Publication["defaults"]): Event {
  const all = members(text);
  if (typeof all === "string") throw invalid("The CloudEvent is not a JSON object.");
  const attributes = parse(text) as Attributes;
  const data = all.findLast(({ name }) => name === "data");
  const raw = data === undefined ? ofBase64(attributes) : text.slice(data.start, data.end);
  return written(attributes, raw, defaults);
}

/** Returns the attributes in the headers; `undefined` when there is no `specversion` among them. */
export function binaryAttributes(
  headers: Readonly<Record<string, string>>,
  contentType: string | undefined,
): Attributes | undefined {
  const [prefix] = VERSIONS.find(([, name]) => Object.hasOwn(headers, name)) ?? [];
  if (prefix === undefined) return undefined;
  const attributes: Record<string, unknown> = { datacontenttype: contentType };
  for (const [name, value] of Object.entries(headers))
    if (name.startsWith(prefix)) attributes[name.slice(prefix.length)] = value;
  return attributes;
}

/** @throws Problem INVALID_JSON or VALIDATION_FAILED */
export function binary(attributes: Attributes, payload: Uint8Array | string, defaults: Publication["defaults"]): Event {
  return written(attributes, dataText(Buffer.from(payload as string), attributes["datacontenttype"]), defaults);
}

/**
 * Writes data as JSON: JSON as it is, other text as a string, other bytes as a string of base64.
 * @throws Problem INVALID_JSON for text that is not UTF-8, and for JSON that is none
 */
function dataText(bytes: Buffer, contentType: unknown): string {
  if (bytes.length === 0) return "null";
  if (typeof contentType === "string" && !JSON_TYPE.test(contentType)) {
    return JSON.stringify(/^text\//i.test(contentType) ? payloadText(bytes) : bytes.toString("base64"));
  }
  const text = payloadText(bytes);
  // Its text becomes part of a larger one, so it must be one whole value.
  parse(text);
  return text;
}

function ofBase64({ data_base64: base64, datacontenttype: contentType }: Attributes): string {
  if (base64 === undefined) return "null";
  if (typeof base64 !== "string") throw wrong("data_base64", "must be a string");
  const json = typeof contentType === "string" && JSON_TYPE.test(contentType);
  return json ? dataText(Buffer.from(base64, "base64"), contentType) : JSON.stringify(base64);
}

function written(attributes: Attributes, data: string, defaults: Publication["defaults"]): Event {
  const { specversion, id, source, time, subject, relaykeyid, type } = attributes;
  if (typeof specversion !== "string" || !specversion.startsWith("1.")) throw wrong("specversion", "must be 1.0");
  if (typeof id !== "string" || id === "") throw wrong("id", "is missing");
  if (typeof type !== "string" || type === "") throw wrong("type", "is missing");
  const head = { id: idOf(source, id), type: typeName(type), keyId: relaykeyid, createdAt: time };
  const text = JSON.stringify(head);
  const keyId = defaults?.keyId ?? (typeof subject === "string" && isKeyId(subject) ? subject : undefined);
  return { text: `${text.slice(0, -1)},"data":${data}}`, defaults: { keyId } };
}

/**
 * Returns an event id for the two attributes that make a CloudEvent one and the same: its `id` and a hash of its `source`,
 * or a hash of both where that is no event id. It is the same in each version, or a redelivery would become a second event.
 */
function idOf(source: unknown, id: string): string {
  const own = `${id}:${digest(source).slice(0, 20)}`;
  return isEventId(own) ? own : `ce-${digest([source, id]).slice(0, 40)}`;
}

const digest = (value: unknown): string => hash("sha256", JSON.stringify(value) ?? "", "hex");

/** Replaces each character that an event type may not have by `_`: `com.example/paid` becomes `com.example_paid`. */
export function typeName(type: string): string {
  if (isEventName(type)) return type;
  return type.replaceAll(/[^A-Za-z0-9_:.-]/g, "_").replaceAll(/(^|[:.])(?=[:.]|$)/g, "$1_");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw invalid(`The payload is not valid JSON (${faultIn(text)}).`);
  }
}

const invalid = (detail: string): Problem => new Problem("INVALID_JSON", detail);
const wrong = (path: string, message: string): Problem =>
  new Problem("VALIDATION_FAILED", "The CloudEvent is not valid.", { errors: [{ path, message }] });
