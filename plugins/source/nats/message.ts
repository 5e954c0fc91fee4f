/** A JetStream message in the words of all message sources. */
import type { JsMsg } from "@nats-io/jetstream";
import type { RawMessage } from "../messages/message.ts";
import type { Settlement } from "./settlement.ts";

export interface NatsMessage extends RawMessage {
  readonly original: JsMsg;
  /** That of the connection that it came by, and no other. */
  readonly settlement: Settlement;
}

/**
 * @param streamName the stream and when it was made: another stream of the same name counts from 1 again, and its messages
 * must not pass for those of the first
 */
export function readNats(original: JsMsg, streamName: string, settlement: Settlement): NatsMessage {
  const { headers, info } = original;
  const texts = headers && textHeaders(headers);
  return {
    payload: original.data,
    contentType: texts?.["content-type"],
    headers: texts,
    subject: original.subject,
    at: Math.floor(info.timestampNanos / 1_000_000),
    place: `${streamName}-${info.streamSequence}`,
    redelivered: original.redelivered,
    original,
    settlement,
  };
}

function textHeaders(headers: NonNullable<JsMsg["headers"]>): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, values] of headers) texts[name.toLowerCase()] = values.join(", ");
  return texts;
}
