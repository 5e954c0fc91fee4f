/** A message, as all message sources share it: as a connector hands it in, and as `map` reads it. */
import { hash } from "node:crypto";
import { unmarked } from "../../../core/lib/json.ts";
import { bodyText } from "../../../core/model/json-body.ts";
import { isEventId } from "../../../core/model/names.ts";

/** A message as a connector got it from upstream. */
export interface RawMessage {
  /** Bytes are read as UTF-8. */
  readonly payload: Uint8Array | string;
  readonly contentType?: string;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Where it was sent: a stream, topic, routing key or table. */
  readonly subject: string;
  /** The key that upstream orders by, where it has one. */
  readonly key?: string;
  /** Epoch ms at which upstream got it, where upstream says so. */
  readonly at?: number;
  /**
   * Where it stood, such as `orders-1699-0`: no other message of the source has it, and it is the same at each
   * redelivery. It becomes the id of an event that has none.
   */
  readonly place: string;
  /** True when upstream has no places, and this one is made of the content: messages that are alike share it. */
  readonly madePlace?: boolean;
  /** Why there is no payload, for people, where there is none. @default "The payload is empty." */
  readonly lacks?: string;
  /** True when upstream says that it was delivered before. */
  readonly redelivered?: boolean;
}

/** A message as `map` and the functions of the options read it. */
export interface SourceMessage extends Pick<RawMessage, "subject" | "key" | "at" | "place"> {
  /** The payload. */
  readonly text: string;
  /** Parses the payload. @throws SyntaxError: then the message is set aside */
  json(): unknown;
  /** Headers, or the other fields of a stream's entry or columns of a row. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** One event as `map` returns it. What it leaves out comes from the options, the id from the message's place. */
export interface MappedEvent {
  readonly type?: string;
  readonly keyId?: string;
  /** Written as JSON. */
  readonly data?: unknown;
  /** JSON text of the data, passed on unchanged, instead of `data`: `dataText: message.text`. */
  readonly dataText?: string;
  readonly id?: string;
  readonly createdAt?: string | Date;
}

/** The options of every message source, beside its own. */
export interface MessageOptions {
  /**
   * Stands in metrics, the log and `/readyz`, and begins the ids of events that have none. Up to 32 letters, digits and
   * `-`; of one kind each needs its own. @default the kind of the source
   */
  readonly name?: string;
  /**
   * Makes the events of a message: one, several (all or nothing) or none, which drops it. What it throws sets the
   * message aside. @default the payload is one event as `POST /events` takes it, a list of them, or a CloudEvent 1.0
   */
  readonly map?: (message: SourceMessage) => MappedEvent | readonly MappedEvent[] | undefined;
  /** The API key of events that name none. */
  readonly keyId?: string | ((message: SourceMessage) => string);
  /** The type of events that name none. */
  readonly type?: string | ((message: SourceMessage) => string);
}

/** Options with the name filled in. */
export interface Reading extends MessageOptions {
  readonly source: string;
}

/** Why a message is set aside: the code that its publisher would have got, and what to correct. At most 1,000 characters. */
export interface Poison {
  readonly code: string;
  readonly detail: string;
}

/**
 * Derives an event's id from where its message stood, so that a redelivery is recognised as a repeat: `orders-1699-0`, or
 * `orders-1699-0:3` for an event of a batch. A place that is no valid id becomes its hash.
 * @param at the event's place in its message's batch; `undefined` for a message of one event
 */
export function derivedId(place: string, at?: number): string {
  const plain = at === undefined ? place : `${place}:${at}`;
  return isEventId(plain) ? plain : `h-${hash("sha256", plain, "hex").slice(0, 40)}`;
}

/** @throws Problem INVALID_JSON for bytes that are not UTF-8 */
export const payloadText = (payload: Uint8Array | string): string =>
  typeof payload === "string" ? unmarked(payload) : bodyText(payload, "payload");
