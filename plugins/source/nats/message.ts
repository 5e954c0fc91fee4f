/** A JetStream message in the words of all message sources. */
import type { JsMsg } from "@nats-io/jetstream";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Poison, RawMessage } from "../messages/message.ts";

/** Tells JetStream what became of the messages of one connection. */
export interface NatsSettlement {
  /** Notes that a message is in flight. */
  hold(message: NatsMessage): NatsMessage;
  /** Acknowledges a message, or gives it back. */
  settle(message: NatsMessage, outcome: "stored" | "returned"): void;
  /** Passes a message to the dead-letter subject, if there is one, and ends it. Rejects when the session ends before that. */
  setAside(message: NatsMessage, poison: Poison): Promise<void>;
  /**
   * Asks for more time for every message in flight, three times in each `ackWaitMs`: storage may be away for longer than
   * the consumer waits. Resolves when the signal aborts.
   */
  extendLeases(clock: Clock, over: AbortSignal, ackWaitMs: number): Promise<void>;
}

export interface NatsMessage extends RawMessage {
  readonly original: JsMsg;
  /** That of the connection that it came by, and no other. */
  readonly settlement: NatsSettlement;
}

/**
 * @param streamName the stream and when it was made: another stream of the same name counts from 1 again, and its messages
 * must not pass for those of the first
 */
export function readNats(original: JsMsg, streamName: string, settlement: NatsSettlement): NatsMessage {
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
