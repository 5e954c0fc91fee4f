/** Makes the mail of a delivery: a subject and a text for people, and the exact body as an attachment. */
import { OPERATOR_KEY } from "../../../core/model/names.ts";
import { NOTICE_MEANINGS } from "../../../core/model/notice.ts";
import type { TransportRequest } from "../../../core/ports/transport.ts";

interface Written {
  readonly subject: string;
  readonly text: string;
}

const LONGEST_SUBJECT = 200;
const LONGEST_TEXT = 262_144;

/** One line without control characters, cut. */
const line = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, LONGEST_SUBJECT);

type Fields = Readonly<Record<string, unknown>>;

const MEANINGS: Readonly<Record<string, string>> = NOTICE_MEANINGS;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * A body with a `text` of its own is one that a transform has made: that is the text, and `subject` the subject. Of any
 * other event the fields of its data are listed, and of a notice what it means.
 */
export function writtenOf({ body, headers }: Pick<TransportRequest, "body" | "headers">): Written {
  const event = parsed(body);
  const type = textOf(event["type"]) ?? headers["X-Relay-Event"] ?? "an event";
  const data = isFields(event["data"]) ? event["data"] : {};
  const meaning = Object.hasOwn(MEANINGS, type) ? MEANINGS[type] : undefined;
  const owner = textOf(event["keyId"]) ?? "";
  // A notice to the operator that names no key is about all of them, not about the operator's own.
  const key = textOf(data["keyId"]) ?? (meaning !== undefined && owner === OPERATOR_KEY ? "the whole relay" : owner);
  const own = textOf(event["text"]);
  const subject = textOf(event["subject"]) ?? `${type} ${key} ${textOf(data["host"]) ?? ""}`.trim();
  const text =
    own ??
    [
      type,
      ...(meaning === undefined ? [] : [meaning]),
      "",
      ...linesOf(data, event["data"]),
      "",
      ...linesOf({ ...event, data: undefined }),
    ].join("\n");
  return { subject: line(subject), text: text.slice(0, LONGEST_TEXT) };
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Data that is no object is one line. */
function linesOf(fields: Fields, whole: unknown = fields): readonly string[] {
  if (!isFields(whole)) return whole === undefined ? [] : [JSON.stringify(whole)];
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
}

function parsed(body: Uint8Array): Fields {
  try {
    const read: unknown = JSON.parse(Buffer.from(body).toString("utf8"));
    return isFields(read) ? read : {};
  } catch {
    return {};
  }
}

/** The relay's own headers, by which the attachment can be verified. Others could command the mail, such as `Bcc`. */
export const headersOf = ({ headers }: Pick<TransportRequest, "headers">): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => /^(?:x-relay-|webhook-|content-digest$)/i.test(name)));
