/** Reads the entries of a stream from Redis's replies. */
import type { RawMessage } from "../messages/message.ts";

export interface StreamEntry extends RawMessage {
  /** Its id in the stream: `1699-0`. */
  readonly entryId: string;
  /** Names and values as they are in the stream. */
  readonly fields: readonly Buffer[];
}

/** An entry as it is in a reply; `null` fields: it was deleted since it was delivered. */
type Reply = readonly [id: Buffer, fields: readonly Buffer[] | null];

export interface Entries {
  readonly entries: readonly StreamEntry[];
  /** Ids of entries that were deleted. */
  readonly gone: readonly string[];
  /** The last id of the reply. */
  readonly last?: string;
}

/** The field that holds the message. */
const FIELD = "event";

/** @param redelivered whether they were delivered before */
export function entriesOf(stream: string, replies: readonly (Reply | null)[], redelivered: boolean): Entries {
  const entries: StreamEntry[] = [];
  const gone: string[] = [];
  let last: string | undefined;
  for (const reply of replies) {
    if (reply === null) continue;
    const [id, fields] = reply;
    last = id.toString("latin1");
    if (fields === null) gone.push(last);
    else entries.push(entryOf(stream, last, fields, redelivered));
  }
  return { entries, gone, last };
}

function entryOf(stream: string, entryId: string, fields: readonly Buffer[], redelivered: boolean): StreamEntry {
  let payload: Buffer | undefined;
  let headers: Record<string, string> | undefined;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = (fields[i] as Buffer).toString("utf8").toLowerCase();
    const value = fields[i + 1] as Buffer;
    if (name === FIELD) payload = value;
    else (headers ??= {})[name] = value.toString("utf8");
  }
  return {
    payload: payload ?? "",
    contentType: headers?.["content-type"],
    headers,
    subject: stream,
    at: Number.parseInt(entryId, 10),
    place: `${stream}-${entryId}`,
    redelivered,
    entryId,
    fields,
  };
}

/** The reply of XREADGROUP for one stream; nothing when no entry came in time. */
export const readReply = (reply: unknown): readonly (Reply | null)[] =>
  (reply as readonly (readonly [Buffer, readonly (Reply | null)[]])[] | null)?.[0]?.[1] ?? [];

/** The reply of XAUTOCLAIM: where to go on, and what was claimed. */
export function claimReply(reply: unknown): { readonly next: string; readonly claimed: readonly (Reply | null)[] } {
  const [next, claimed] = reply as readonly [Buffer, readonly (Reply | null)[]];
  return { next: next.toString("latin1"), claimed };
}
