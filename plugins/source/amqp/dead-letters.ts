/** Publishes messages that hold no valid event to the dead-letter exchange, each with the reason in its headers. */
import type { ChannelModel, ConsumeMessage } from "amqplib";
import type { Poison } from "../messages/message.ts";

/**
 * Resolves when RabbitMQ has confirmed the message, which is in a queue then.
 * @throws RangeError or TypeError when the client cannot write the headers: it never will
 */
export type DeadLetter = (message: ConsumeMessage, poison: Poison) => Promise<void>;

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
