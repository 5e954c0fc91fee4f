/** An event: an immutable fact on one API key. */
import { damageOf, verified, withChecksum } from "../lib/checksum.ts";
import type { Codec } from "./kind.ts";
import { isoTime } from "../lib/time.ts";
import type { EventHeaders } from "./header-names.ts";

export interface RelayEvent {
  /** `evt_` + ordinal, or the publisher's own. */
  readonly id: string;
  readonly type: string;
  readonly keyId: string;
  /** Time-ordered text, made at acceptance: the event's place in its key. */
  readonly ordinal: string;
  /** Epoch ms, set by the publisher. */
  readonly createdAt: number;
  /** Epoch ms, set by the relay. */
  readonly acceptedAt: number;
  /** Who wanted it when it was accepted. Of a wide event, those that a replay added: its snapshot has the others. */
  readonly subscriptionIds: readonly string[];
  /** Set only for a wide event. */
  readonly wide?: Wide;
  readonly traceparent?: string;
  /** Sent with its deliveries. Absent where the publisher gave none. */
  readonly headers?: EventHeaders;
  /** The delivery body: exactly the text that is signed and sent. It contains the published `data` byte for byte. */
  readonly body: string;
}

/** An event with too many deliveries for its commit. They are written later, in pages, from a stored snapshot. */
export interface Wide {
  /** The snapshot that lists the subscriptions that wanted it when it was accepted. */
  readonly snapshot: string;
  /** How many subscriptions the snapshot lists. */
  readonly count: number;
}

/** Returns how many deliveries an event has, written or not. */
export const deliveryCount = (event: Pick<RelayEvent, "subscriptionIds" | "wide">): number =>
  event.subscriptionIds.length + (event.wide?.count ?? 0);

/** Longest text of one published event, in bytes. */
export const MAX_EVENT_BYTES = 256 * 1024;
/** Most events in one publication, which one commit stores, and their size in bytes. */
export const MAX_BATCH_EVENTS = 1_000;
export const MAX_BATCH_BYTES = 8 * 1024 * 1024;

/**
 * One line of JSON about the event, its checksum first, then the delivery body unchanged. One of the first edition has no
 * checksum: its two parts are compared.
 */
export const eventCodec: Codec<RelayEvent, RelayEvent> = {
  write(event) {
    const {
      id,
      type,
      keyId,
      ordinal,
      createdAt,
      acceptedAt,
      subscriptionIds: subs,
      wide,
      traceparent,
      headers,
    } = event;
    const head = JSON.stringify({ id, type, keyId, ordinal, createdAt, acceptedAt, subs, wide, traceparent, headers });
    return withChecksum(`${head.slice(1)}\n${event.body}`);
  },
  read(text) {
    const proven = verified(text, '{"id":"');
    if (proven === undefined) throw damageOf(text);
    const end = proven.text.indexOf("\n");
    if (end < 0) throw new SyntaxError("the event has no body");
    const head = JSON.parse(proven.text.slice(0, end)) as Omit<RelayEvent, "body" | "subscriptionIds"> & Subs;
    const { subs, ...rest } = head;
    const event = { ...rest, subscriptionIds: subs, body: proven.text.slice(end + 1) };
    if (!proven.summed && !agrees(event)) throw new SyntaxError("the parts of the event disagree");
    return event;
  },
  id: (event) => event,
};

interface Subs {
  readonly subs: readonly string[];
}

/** Checks a record without a checksum: the body repeats what the head says, and is JSON. */
function agrees({ id, type, keyId, createdAt, acceptedAt, subscriptionIds, body }: RelayEvent): boolean {
  if (!Number.isSafeInteger(acceptedAt) || !Array.isArray(subscriptionIds)) return false;
  JSON.parse(body);
  return body.startsWith(deliveryBody(id, type, keyId, createdAt, "").slice(0, -1));
}

/**
 * Builds the delivery body, without white space of our own.
 * @param data the published bytes of `data`, unchanged
 */
export function deliveryBody(id: string, type: string, keyId: string, createdAt: number, data: string): string {
  // The alphabets of the ids and names need no JSON escapes.
  return `{"id":"${id}","type":"${type}","keyId":"${keyId}","createdAt":"${isoTime(createdAt)}","data":${data}}`;
}

/** Extracts the published bytes of `data` from a delivery body. */
export function bodyData(event: Pick<RelayEvent, "id" | "type" | "keyId" | "createdAt" | "body">): string {
  const head = deliveryBody(event.id, event.type, event.keyId, event.createdAt, "").length - 1;
  return event.body.slice(head, -1);
}
