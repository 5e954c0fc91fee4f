/** An event: an immutable fact on one API key. */
import { verified, withChecksum } from "./checksum.ts";
import { DamagedRecordError, type Damage } from "./errors.ts";
import { eventKey } from "./keys.ts";
import { isoTime } from "./time.ts";

export interface RelayEvent {
  /** `evt_` + ordinal, or the publisher's own. */
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  /** Time-ordered text, minted at acceptance: the event's place in its key. */
  readonly ordinal: string;
  /** Epoch ms, the publisher's. */
  readonly createdAt: number;
  /** Epoch ms, ours. */
  readonly acceptedAt: number;
  /**
   * The subscriptions that wanted it when it was accepted. Of a wide event, only those that a replay added later: the
   * others stand in its snapshot.
   */
  readonly subscriptionIds: readonly string[];
  /** Set on a wide event. */
  readonly wide?: Wide;
  readonly traceparent?: string;
  /** The delivery body: exactly the text that is signed and sent, the published `data` in it byte for byte. */
  readonly body: string;
}

/** An event with too many deliveries for its commit: they are written afterwards, in pages, from a stored snapshot. */
export interface Wide {
  /** The snapshot that lists the subscriptions that wanted it when it was accepted. */
  readonly snapshot: string;
  /** How many there are. */
  readonly count: number;
}

/** How many deliveries an event has, written or not. */
export const deliveryCount = (event: Pick<RelayEvent, "subscriptionIds" | "wide">): number =>
  event.subscriptionIds.length + (event.wide?.count ?? 0);

/** Longest text of one published event, in bytes. */
export const MAX_EVENT_BYTES = 256 * 1024;
/** Most events that are published, and committed, together, and their size in bytes. */
export const MAX_BATCH_EVENTS = 1_000;
export const MAX_BATCH_BYTES = 8 * 1024 * 1024;

/** Record text: one line of JSON about the event, its checksum first, then the delivery body as it is. */
export function encodeEvent(event: RelayEvent): string {
  const { id, type, ordinal, keyId, createdAt, acceptedAt, subscriptionIds: subs, wide, traceparent } = event;
  // As in the body: ids, names and ordinals are of alphabets that need no JSON escapes.
  const list = subs.length === 0 ? "[]" : `["${subs.join('","')}"]`;
  const trace = traceparent === undefined ? "" : `,"traceparent":${JSON.stringify(traceparent)}`;
  const from = wide === undefined ? "" : `,"wide":{"snapshot":"${wide.snapshot}","count":${wide.count}}`;
  const who = `"id":"${id}","type":"${type}","keyId":"${keyId}","ordinal":"${ordinal}"`;
  return withChecksum(
    `${who},"createdAt":${createdAt},"acceptedAt":${acceptedAt},"subs":${list}${from}${trace}}\n${event.body}`,
  );
}

/**
 * Reads the record that stands under `key`, and proves it: by its checksum, or, for one of the first edition, by what its
 * two parts both say.
 * @throws DamagedRecordError when it is not as `encodeEvent` wrote it, or is another event's
 */
export function decodeEvent(text: string, key?: string): RelayEvent {
  const damaged = (damage: Damage, cause?: unknown) => new DamagedRecordError("event", damage, key ?? "", { cause });
  const proven = verified(text, '{"id":"');
  if (proven === undefined) throw damaged(text.startsWith('{"') ? "checksum" : "unreadable");
  const end = proven.text.indexOf("\n");
  if (end < 0) throw damaged("unreadable");
  let event: RelayEvent;
  try {
    const head = JSON.parse(proven.text.slice(0, end)) as Omit<RelayEvent, "body" | "subscriptionIds"> & Subs;
    const { subs, ...rest } = head;
    event = { ...rest, subscriptionIds: subs, body: proven.text.slice(end + 1) };
    if (!proven.summed && !agrees(event)) throw damaged("unreadable");
  } catch (cause) {
    throw cause instanceof DamagedRecordError ? cause : damaged("unreadable", cause);
  }
  if (key !== undefined && key !== eventKey(event.keyId, event.ordinal)) throw damaged("misplaced");
  return event;
}

interface Subs {
  readonly subs: readonly string[];
}

/** Without a checksum: the head is told once more by the body, and the body is JSON. */
function agrees({ id, type, keyId, createdAt, acceptedAt, subscriptionIds, body }: RelayEvent): boolean {
  if (!Number.isSafeInteger(acceptedAt) || !Array.isArray(subscriptionIds)) return false;
  JSON.parse(body);
  return body.startsWith(deliveryBody(id, type, keyId, createdAt, "").slice(0, -1));
}

/**
 * The delivery body, without white space of our own.
 * @param data the published bytes of `data`, kept as they are
 */
export function deliveryBody(id: string, type: string, keyId: string, createdAt: number, data: string): string {
  // The ids and names are of alphabets that need no JSON escapes.
  return `{"id":"${id}","type":"${type}","keyId":"${keyId}","createdAt":"${isoTime(createdAt)}","data":${data}}`;
}

/** The published bytes of `data`, found again in a delivery body. */
export function bodyData(event: Pick<RelayEvent, "id" | "type" | "keyId" | "createdAt" | "body">): string {
  const head = deliveryBody(event.id, event.type, event.keyId, event.createdAt, "").length - 1;
  return event.body.slice(head, -1);
}
