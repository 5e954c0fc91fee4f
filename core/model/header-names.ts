/** Request headers: which a subscription cannot set, which of a delivery may be repeated, and those of an event. */

/** A token of RFC 9110. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
export const MAX_HEADER_NAME = 128;

const RESERVED =
  /^(?:host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|upgrade|http2-settings|expect|te|trailer|cookie|user-agent|webhook-.*|x-relay-.*|traceparent)$/i;

/** The headers of a delivery that the config may repeat under names of one's own (`signature.headers`). */
export const REPEATABLE = [
  "X-Relay-Webhook-Signature",
  "X-Relay-Webhook-Signature-Previous",
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
  "X-Relay-Event",
  "X-Relay-Attempt",
  "X-Relay-Replay",
] as const;

/** Which header each name of one's own repeats. */
export type RepeatedHeaders = Readonly<Record<string, (typeof REPEATABLE)[number]>>;

/** Returns true for the name of a static header that is refused. It is dropped where an older record has it. */
export const isReservedHeader = (name: string): boolean => RESERVED.test(name);

/** False for a header that a delivery has anyway, which a receiver would get twice. */
export const mayStandBeside = (name: string): boolean => !isReservedHeader(name) && !/^accept-encoding$/i.test(name);

/**
 * The headers of an event, by name, in lower case and in the order of the letters. They are sent with each of its deliveries,
 * where the subscription sets none of that name.
 */
export type EventHeaders = Readonly<Record<string, string>>;

export const MOST_EVENT_HEADERS = 16;
/** Most characters of all names and values together. */
export const MOST_HEADER_CHARS = 4_096;

const VALUE = /^[\x20-\x7e]*$/;
/** Beside those that a subscription cannot set either: an event proves nobody's identity, and all its bodies are JSON. */
const NOT_OF_EVENTS = /^(?:accept|accept-encoding|authorization)$/;

/** Returns headers as they are stored, or one mistake after the other with its path. */
export function readEventHeaders(given: unknown): EventHeaders | readonly { path: string; message: string }[] {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return [{ path: "headers", message: "must be an object of texts" }];
  const entries = Object.entries(given as Readonly<Record<string, unknown>>);
  if (entries.length > MOST_EVENT_HEADERS)
    return [{ path: "headers", message: `may be at most ${MOST_EVENT_HEADERS}` }];
  const wrong: { path: string; message: string }[] = [];
  const read = new Map<string, string>();
  let chars = 0;
  for (const [name, value] of entries) {
    const lower = name.toLowerCase();
    const message = read.has(lower) ? "is given more than once" : wrongHeader(lower, value);
    if (message !== undefined) wrong.push({ path: `headers.${name.slice(0, MAX_HEADER_NAME)}`, message });
    read.set(lower, value as string);
    chars += name.length + (typeof value === "string" ? value.length : 0);
  }
  if (chars > MOST_HEADER_CHARS)
    wrong.push({ path: "headers", message: `may have at most ${MOST_HEADER_CHARS} characters` });
  return wrong.length > 0 ? wrong : Object.fromEntries([...read].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function wrongHeader(lower: string, value: unknown): string | undefined {
  if (lower.length > MAX_HEADER_NAME || !HEADER_NAME.test(lower)) return "is not a header name";
  if (isReservedHeader(lower) || NOT_OF_EVENTS.test(lower)) return "is no header of an event";
  if (typeof value !== "string") return "must be a string";
  return VALUE.test(value) && value.trim() === value ? undefined : "must be visible ASCII";
}
