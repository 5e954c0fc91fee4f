/**
 * Reads CloudEvents over HTTP
 * (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md), as they are read from brokers.
 */
import { MAX_EVENT_BYTES } from "../../../core/model/event.ts";
import { Problem, type FieldError } from "../../../core/model/problem.ts";
import type { RouteRequest } from "../../../core/ports/route.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { binary, binaryAttributes, structured } from "../messages/cloud-event.ts";

/** The attributes that mean something to the relay. */
const READ = ["specversion", "id", "source", "type", "time", "subject", "relaykeyid"].map((name) => `ce-${name}`);

/**
 * Reads an event in binary mode: its attributes are headers, and its body is the data.
 * @throws Problem INVALID_JSON or VALIDATION_FAILED
 */
export function binaryEvent(request: RouteRequest, bytes: Uint8Array): Publication {
  const headers: Record<string, string> = {};
  for (const name of READ) {
    const value = request.header(name);
    if (value !== undefined) headers[name] = decoded(name, value);
  }
  const attributes = binaryAttributes(headers, request.header("content-type"));
  return { ...binary(attributes ?? {}, bytes, undefined), path: "" };
}

/** Reads what the binding percent-encodes. */
function decoded(name: string, value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    throw invalid([{ path: name, message: "is not percent-encoded UTF-8" }]);
  }
}

/**
 * Reads events in structured mode.
 * @param texts with their places
 * @throws Problem INVALID_JSON, or VALIDATION_FAILED with what is wrong with each of them
 */
export async function structuredEvents(texts: readonly Publication[]): Promise<readonly Publication[]> {
  const errors: FieldError[] = [];
  const events: Publication[] = [];
  let characters = 0;
  for (const { text, path } of texts) {
    if (text.length > MAX_EVENT_BYTES)
      throw new Problem("PAYLOAD_TOO_LARGE", `An event may have at most ${MAX_EVENT_BYTES} bytes.`);
    try {
      events.push({ ...structured(text, undefined), path });
    } catch (error) {
      const found = error instanceof Problem ? error.extras.errors : undefined;
      if (found === undefined) throw error;
      errors.push(...found.map((one) => ({ ...one, path: path === "" ? one.path : `${path}.${one.path}` })));
    }
    // Other work gets its turn: a batch may have megabytes.
    characters += text.length;
    if (characters < CHARACTERS_AT_ONCE) continue;
    await new Promise((turned) => void setImmediate(turned));
    characters = 0;
  }
  if (errors.length > 0) throw invalid(errors);
  return events;
}

const CHARACTERS_AT_ONCE = 65_536;

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem("VALIDATION_FAILED", "Correct the attributes in `errors`; nothing was stored.", { errors });
