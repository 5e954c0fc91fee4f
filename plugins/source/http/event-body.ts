/** Reads the body of a publish request: one event, a list of them, or one per line (https://github.com/ndjson/ndjson-spec). */
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { faultIn } from "../../../core/lib/json-fault.ts";
import { elements, lines, skipSpace, utf8 } from "../../../core/lib/json.ts";
import { mediaType } from "../../../core/model/json-body.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { RouteRequest } from "../../../core/ports/plugin.ts";
import type { Publication } from "../../../core/ports/source.ts";

type Format = "json" | "ndjson";

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
]);

/**
 * @param caller the publisher: bodies under way are shared out over callers
 * @throws Problem UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, PROVIDER_BACKPRESSURE or INVALID_JSON, in this order
 */
export async function readEventBody(request: RouteRequest, caller: string): Promise<PublishBody> {
  const contentType = request.header("content-type") ?? "";
  const format = FORMATS.get(contentType) ?? formatOf(contentType);
  if (request.header("content-encoding") !== undefined)
    throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send the body without Content-Encoding.", {
      headers: { "Accept-Encoding": "identity" },
    });
  const bytes = await request.body(MAX_BATCH_BYTES, caller);
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw new Problem("INVALID_JSON", "The body is not valid UTF-8.");
  }
  if (format === "ndjson") return { format, bytes, publications: events(text), batch: true };
  if (text[skipSpace(text, 0)] !== "[") {
    return { format, bytes, publications: [{ text, path: "" }], batch: false };
  }
  return { format, bytes, publications: items(text), batch: true };
}

/** Reads a media type that is spelled in another way, or has parameters. */
function formatOf(contentType: string): Format {
  const format = FORMATS.get(mediaType(contentType) ?? "");
  if (format !== undefined) return format;
  throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send application/json or application/x-ndjson in UTF-8.", {
    headers: { Accept: [...FORMATS.keys()].join(", ") },
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
