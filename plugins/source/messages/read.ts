/** Reads a message as the events that it publishes: through `map`, or as one of the forms that every source understands. */
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { elements, skipSpace } from "../../../core/lib/json.ts";
import { atOnce } from "../../../core/lib/at-once.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { binary, binaryAttributes, isCloudEvent, structured } from "./cloud-event.ts";
import {
  derivedId,
  payloadText,
  type MappedEvent,
  type RawMessage,
  type Reading,
  type SourceMessage,
} from "./message.ts";

/** An event without its place in a request: the intake sets that. */
export type Draft = Omit<Publication, "path">;

const NO_HEADERS: Readonly<Record<string, string>> = {};
const OPEN_ARRAY = "[";

/**
 * Returns the events of a message; none when `map` drops it.
 * @throws Problem when the message can never be read: it is to be set aside
 */
export function readMessage(raw: RawMessage, options: Reading): readonly Draft[] {
  if (raw.payload.length > MAX_BATCH_BYTES)
    throw new Problem("PAYLOAD_TOO_LARGE", `A message may have at most ${MAX_BATCH_BYTES} bytes.`);
  const { map, keyId, type } = options;
  const plain = map === undefined && typeof keyId !== "function" && typeof type !== "function";
  // Made only for functions that read it.
  const message = plain ? undefined : messageOf(raw);
  const given = {
    keyId: typeof keyId === "function" ? called("keyId", () => keyId(message as SourceMessage)) : keyId,
    type: typeof type === "function" ? called("type", () => type(message as SourceMessage)) : type,
  };
  const place = options.name === undefined ? raw.place : `${options.name}-${raw.place}`;
  const defaults = (at?: number): Publication["defaults"] => ({ ...given, id: derivedId(place, at) });
  if (map !== undefined) {
    const mapped = called("map", () => map(message as SourceMessage));
    if (mapped === undefined) return [];
    if (!Array.isArray(mapped))
      return [{ text: called("map", () => messageText(mapped as MappedEvent)), defaults: defaults() }];
    refuseMany(mapped.length);
    return mapped.map((one: MappedEvent, i) => ({
      text: called("map", () => messageText(one)),
      defaults: defaults(i),
    }));
  }
  const attributes = raw.headers && binaryAttributes(raw.headers, raw.contentType);
  if (attributes !== undefined) return [binary(attributes, raw.payload, given)];
  const text = payloadText(raw.payload);
  if (text === "") throw new Problem("INVALID_JSON", raw.lacks ?? "The payload is empty.");
  const one = (text: string, at?: number): Draft =>
    isCloudEvent(text) ? structured(text, given) : { text, defaults: defaults(at) };
  if (text[skipSpace(text, 0)] !== OPEN_ARRAY) return [one(text)];
  const spans = elements(text, MAX_BATCH_EVENTS + 1);
  if (spans === undefined) throw new Problem("INVALID_JSON", `The payload is not valid JSON (${faultIn(text)}).`);
  if (spans.length === 0) throw new Problem("VALIDATION_FAILED", "There is no event in the message.");
  refuseMany(spans.length);
  return spans.map(({ start, end }, i) => one(text.slice(start, end), i));
}

function messageOf(raw: RawMessage): SourceMessage {
  const text = payloadText(raw.payload);
  const { headers = NO_HEADERS, subject, key, at, place } = raw;
  return { text, json: () => JSON.parse(text) as unknown, headers, subject, key, at, place };
}

/**
 * Writes the fields of an event and nothing else. One without data is refused by `accept`.
 * @throws Error when the data is not JSON
 */
export function messageText({ id, type, keyId, createdAt, data, dataText }: MappedEvent): string {
  if (dataText === undefined) return JSON.stringify({ id, type, keyId, createdAt, data });
  // It becomes part of a larger text, so it must be one whole value.
  JSON.parse(dataText);
  const head = JSON.stringify({ id, type, keyId, createdAt }).slice(0, -1);
  return `${head}${head === "{" ? "" : ","}"data":${dataText}}`;
}

/** Calls a function of the config. What it throws, the message made it throw: it would throw again. */
function called<T>(name: string, call: () => T): T {
  try {
    return atOnce(name, call());
  } catch (error) {
    throw new Problem("VALIDATION_FAILED", `${name} of the source has thrown: ${String(error)}`);
  }
}

function refuseMany(count: number): void {
  if (count <= MAX_BATCH_EVENTS) return;
  throw new Problem("PAYLOAD_TOO_LARGE", `A message may have at most ${MAX_BATCH_EVENTS} events.`);
}
