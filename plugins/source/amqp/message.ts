/** An AMQP message in the words of all message sources. */
import { hash } from "node:crypto";
import type { ConsumeMessage, MessageProperties } from "amqplib";
import type { RawMessage } from "../messages/message.ts";
import type { DeadLetter, Settlement } from "./settlement.ts";

export interface AmqpMessage extends RawMessage {
  readonly original: ConsumeMessage;
  readonly from: Consumed;
}

/** The connection that a message came by. */
export interface Consumed {
  readonly settlement: Settlement;
  /** Absent where the config names no dead-letter exchange. */
  readonly publish: DeadLetter | undefined;
  /** Aborts when the session ends. */
  readonly ending: AbortSignal;
}

/** Properties whose types are `any`. */
type Unchecked = Readonly<Record<keyof MessageProperties, unknown>>;

export function readAmqp(original: ConsumeMessage, queue: string, from: Consumed): AmqpMessage {
  const { content, fields, properties } = original;
  const { contentType, timestamp }: Unchecked = properties;
  return {
    payload: content,
    contentType: typeof contentType === "string" ? contentType : undefined,
    headers: properties.headers && textHeaders(properties.headers),
    subject: fields.routingKey,
    // The property has seconds, written by the publisher.
    at: typeof timestamp === "number" ? timestamp * 1_000 : undefined,
    place: `${queue}:${identityOf(original)}`,
    redelivered: fields.redelivered,
    original,
    from,
  };
}

/**
 * Returns what recognises a message that is delivered again. RabbitMQ gives a message no position, so that without the
 * property `message-id` only its content is left: two that are alike in all of this are one event.
 */
function identityOf({ content, fields, properties }: ConsumeMessage): string {
  const { messageId, correlationId, timestamp, type }: Unchecked = properties;
  if (typeof messageId === "string" && messageId !== "") return messageId;
  const envelope = JSON.stringify([fields.exchange, fields.routingKey, correlationId, timestamp, type]);
  return hash("sha256", Buffer.concat([Buffer.from(envelope), content]), "hex").slice(0, 40);
}

function textHeaders(headers: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || value === null) continue;
    texts[name.toLowerCase()] =
      typeof value === "string" ? value : Buffer.isBuffer(value) ? value.toString("utf8") : JSON.stringify(value);
  }
  return texts;
}
