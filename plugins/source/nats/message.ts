/** A JetStream message in the words of all message sources. */
import type { JsMsg } from "@nats-io/jetstream";
import type { RawMessage } from "../messages/message.ts";

export interface NatsMessage extends RawMessage {
  readonly original: JsMsg;
  /** The connection that it came by: it settles the message, and no other does. */
  readonly settle: (message: NatsMessage, outcome: NatsOutcome) => Promise<void>;
}

export type NatsOutcome = "stored" | "returned" | { readonly code: string; readonly detail: string };

/**
 * @param streamName the stream and when it was made: another stream of the same name counts from 1 again, and its messages
 * must not pass for those of the first
 */
export function readNats(original: JsMsg, streamName: string, settle: NatsMessage["settle"]): NatsMessage {
  const { headers, info } = original;
  const texts: Record<string, string> = {};
  for (const [name, values] of headers ?? []) texts[name.toLowerCase()] = values.join(", ");
  return {
    payload: original.data,
    ...(texts["content-type"] !== undefined && { contentType: texts["content-type"] }),
    headers: texts,
    subject: original.subject,
    at: Math.floor(info.timestampNanos / 1_000_000),
    place: `${streamName}-${info.streamSequence}`,
    redelivered: original.redelivered,
    original,
    settle,
  };
}
