/** The messages of one connection: each can be settled on the channel that it came by, and on no other. */
import { hash } from "node:crypto";
import type { Channel, ChannelModel, ConsumeMessage, MessageProperties } from "amqplib";
import type { Poison, RawMessage } from "../messages/message.ts";

export class Settlement {
  readonly #channel: Pick<Channel, "ack" | "nack">;
  /** Tags that are not settled, ascending: a channel counts them up. No more than may be in flight. */
  readonly #open = new Set<number>();

  constructor(channel: Pick<Channel, "ack" | "nack">) {
    this.#channel = channel;
  }

  /** Notes a message that has come. */
  hold({ fields }: ConsumeMessage): void {
    this.#open.add(fields.deliveryTag);
  }

  /**
   * Acknowledges with few frames: one for all up to a tag, where none before it is open.
   * @param messages in the order of their delivery
   */
  acknowledge(messages: readonly ConsumeMessage[]): void {
    for (const { fields } of messages) this.#open.delete(fields.deliveryTag);
    const [open = Infinity] = this.#open;
    const last = messages.findLast(({ fields }) => fields.deliveryTag < open);
    if (last !== undefined) this.#channel.ack(last, true);
    for (const message of messages) if (message.fields.deliveryTag > open) this.#channel.ack(message);
  }

  /** @param again puts it back into its queue; else its queue passes it to its own dead letters, or drops it */
  refuse(message: ConsumeMessage, again: boolean): void {
    this.#channel.nack(message, false, again);
    this.#open.delete(message.fields.deliveryTag);
  }
}

/**
 * Resolves when RabbitMQ has confirmed the message, which is in a queue then.
 * @throws RangeError or TypeError when the client cannot write the headers: it never will
 */
type DeadLetter = (message: ConsumeMessage, poison: Poison) => Promise<void>;

/**
 * Opens a channel of its own for them, with publisher confirms.
 * @throws Error when the exchange is not there
 */
export async function deadLetterExchangeOf(
  connection: ChannelModel,
  exchange: string,
  { queue, deadLetterRoutingKey = queue }: { readonly queue: string; readonly deadLetterRoutingKey?: string },
  fail: (error: Error) => void,
): Promise<DeadLetter> {
  const channel = await connection.createConfirmChannel();
  channel.on("error", fail);
  await channel.checkExchange(exchange);
  const returned = new Set<string>();
  channel.on("return", ({ properties }) => returned.add(String(properties.headers?.["x-relay-delivery"])));
  return (message, { code, detail }) => {
    const delivery = String(message.fields.deliveryTag);
    const { headers: given, contentType, contentEncoding, correlationId, ...properties } = message.properties;
    // CC and BCC would send it to further queues.
    const { CC: _cc, BCC: _bcc, ...headers } = given ?? {};
    const reason = { "x-relay-code": code, "x-relay-detail": detail, "x-relay-queue": queue };
    const { messageId, timestamp, type, appId, replyTo, priority } = properties;
    return new Promise((resolve, reject) => {
      const options = {
        headers: { ...headers, ...reason, "x-relay-delivery": delivery },
        ...{ contentType, contentEncoding, correlationId, messageId, timestamp, type, appId, replyTo, priority },
        persistent: true,
        mandatory: true,
      };
      channel.publish(exchange, deadLetterRoutingKey, message.content, options, (error: Error | null) => {
        if (error !== null) reject(error);
        else if (returned.delete(delivery)) reject(new Error(`the exchange ${exchange} has no queue for the message`));
        else resolve();
      });
    });
  };
}

export interface AmqpMessage extends RawMessage {
  readonly original: ConsumeMessage;
  readonly from: Consumed;
}

/** The connection that a message came by. */
interface Consumed {
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
    ...placeOf(original, queue),
    redelivered: fields.redelivered,
    original,
    from,
  };
}

/**
 * Returns the place by which a message is recognised that is delivered again. RabbitMQ gives a message no position, so that without the
 * property `message-id` only its content is left: two that are alike in all of this are one event.
 */
function placeOf({ content, fields, properties }: ConsumeMessage, queue: string) {
  const { messageId, correlationId, timestamp, type }: Unchecked = properties;
  if (typeof messageId === "string" && messageId !== "") return { place: `${queue}:${messageId}` };
  const envelope = JSON.stringify([fields.exchange, fields.routingKey, correlationId, timestamp, type]);
  const digest = hash("sha256", Buffer.concat([Buffer.from(envelope), content]), "hex").slice(0, 40);
  return { place: `${queue}:${digest}`, madePlace: true };
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
