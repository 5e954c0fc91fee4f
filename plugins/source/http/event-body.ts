/**
 * Reads the body of a publish request: one event, a list of them, one per line (https://github.com/ndjson/ndjson-spec), or
 * CloudEvents.
 */
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { elements, lines, skipSpace, utf8 } from "../../../core/lib/json.ts";
import { mediaType } from "../../../core/model/json-body.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { ContentCoding, RouteRequest } from "../../../core/ports/route.ts";
import type { Publication } from "../../../core/ports/source.ts";
import { binaryEvent, structuredEvents } from "./cloud-events.ts";

type Format = "json" | "ndjson" | "cloudevent" | "cloudevents" | "binary";

export interface PublishBody {
  readonly format: Format;
  readonly bytes: Uint8Array;
  readonly publications: readonly Publication[];
  /** True when the answer is a list. */
  readonly batch: boolean;
}

const FORMATS: ReadonlyMap<string, Format> = new Map([
  ["application/json", "json"],
  ["application/x-ndjson", "ndjson"],
  ["application/cloudevents+json", "cloudevent"],
  ["application/cloudevents-batch+json", "cloudevents"],
]);
const CODINGS: ReadonlyMap<string, ContentCoding> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
]);

/**
 * @param caller the publisher: bodies under way are shared out over callers
 * @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, PROVIDER_BACKPRESSURE or INVALID_JSON, in this order
 */
export async function readEventBody(request: RouteRequest, caller: string): Promise<PublishBody> {
  const contentType = request.header("content-type") ?? "";
  const isBinary = request.header("ce-specversion") !== undefined;
  const format = FORMATS.get(contentType) ?? formatOf(contentType, isBinary);
  const encoding = request.header("content-encoding");
  const coding = encoding === undefined ? undefined : codingOf(encoding);
  const bytes = await request.body(MAX_BATCH_BYTES, caller, coding);
  if (format === "binary" || (format === "json" && isBinary)) {
    const event = binaryEvent(request, bytes);
    // What its headers say is a part of it.
    return { format: "binary", bytes: Buffer.from(event.text), publications: [event], batch: false };
  }
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw new Problem("INVALID_JSON", "The body is not valid UTF-8.");
  }
  if (format === "cloudevent")
    return { format, bytes, publications: await structuredEvents([{ text, path: "" }]), batch: false };
  if (format === "cloudevents")
    return { format, bytes, publications: await structuredEvents(items(text)), batch: true };
  if (format === "ndjson") return { format, bytes, publications: events(text), batch: true };
  if (text[skipSpace(text, 0)] !== "[") {
    return { format, bytes, publications: [{ text, path: "" }], batch: false };
  }
  return { format, bytes, publications: items(text), batch: true };
}

/** Reads a media type that is spelled in another way, or has parameters. The data of a CloudEvent may have any. */
function formatOf(contentType: string, any: boolean): Format {
  const format = FORMATS.get(mediaType(contentType) ?? "");
  if (format !== undefined) return format;
  if (any) return "binary";
  throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send application/json, application/x-ndjson or CloudEvents, in UTF-8.", {
    headers: { Accept: [...FORMATS.keys()].join(", ") },
  });
}

function codingOf(encoding: string): ContentCoding {
  const coding = CODINGS.get(encoding.trim().toLowerCase());
  if (coding !== undefined) return coding;
  throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send the body with Content-Encoding gzip or deflate, or without one.", {
    headers: { "Accept-Encoding": "gzip, deflate" },
  });
}

function items(text: string): readonly Publication[] {
  const spans = elements(text, MAX_BATCH_EVENTS + 1);
  if (spans === undefined) throw new Problem("INVALID_JSON", `The body is not valid JSON (${faultIn(text)}).`);
  refuseMany(spans.length);
  return spans.map(({ start, end }, i) => ({ text: text.slice(start, end), path: `[${i}]` }));
}

function events(text: string): readonly Publication[] {
  const found: Publication[] = [];
  for (const line of lines(text)) {
    found.push({ text: line.text, path: `[${found.length}]` });
    refuseMany(found.length);
  }
  return found;
}

function refuseMany(count: number): void {
  if (count <= MAX_BATCH_EVENTS) return;
  throw new Problem(
    "PAYLOAD_TOO_LARGE",
    `A request may have at most ${MAX_BATCH_EVENTS} events. Send several requests.`,
  );
}
