/** Publishes over a channel for each exchange: the broker closes that of one which is not there. */
import type { ChannelModel, ConfirmChannel } from "amqplib";
import type { TransportRequest } from "../../../core/ports/transport.ts";

/** Most channels that are kept open without a message under way. */
const IDLE = 64;
/** Message of the client's error for a message that the broker refused. */
const NACKED = "message nacked";

interface Exchange {
  readonly channel: Promise<ConfirmChannel>;
  underWay: number;
  /** The words of the broker that closed the channel. */
  closed: string | undefined;
  /** The reason that the broker gave for each message that it sent back, by message id. */
  readonly returned: Map<string, string>;
}

/** The broker does not take the message. */
export class PublishRefused extends Error {}

export class Exchanges {
  readonly #connection: ChannelModel;
  /** In the order of last use. */
  readonly #open = new Map<string, Exchange>();

  constructor(connection: ChannelModel) {
    this.#connection = connection;
  }

  /**
   * Resolves once the broker has confirmed the message: to `undefined`, or to its reason when it sent the message back.
   * @throws PublishRefused when the broker refused it or closed the channel; Error when the connection is lost
   */
  async publish(name: string, routingKey: string, request: TransportRequest): Promise<string | undefined> {
    const { headers, body, messageId } = request;
    const exchange = this.#exchange(name);
    exchange.underWay++;
    try {
      const channel = await exchange.channel;
      await new Promise<void>((confirmed, failed) => {
        const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
        // No content type beside the header of that name: clients would hand on parsed JSON, not the bytes that are signed.
        const how = { mandatory: true, persistent: true, messageId, headers: { ...headers } };
        channel.publish(name, routingKey, bytes, how, (error: Error | null) =>
          error === null ? confirmed() : failed(error),
        );
      });
      // A message is sent back before it is confirmed.
      const reason = exchange.returned.get(messageId);
      exchange.returned.delete(messageId);
      return reason;
    } catch (error) {
      // A refusal is an event of the message; the end of a channel is another event, before or after it.
      if ((error as Error).message === NACKED)
        throw new PublishRefused("the broker refused the message: a queue of it is full");
      throw exchange.closed === undefined ? error : new PublishRefused(exchange.closed);
    } finally {
      exchange.underWay--;
    }
  }

  #exchange(name: string): Exchange {
    const known = this.#open.get(name);
    this.#open.delete(name);
    const exchange = known ?? this.#made(name);
    this.#open.set(name, exchange);
    if (this.#open.size > IDLE) this.#closeIdle();
    return exchange;
  }

  #made(name: string): Exchange {
    const channel = this.#connection.createConfirmChannel();
    const exchange: Exchange = { channel, underWay: 0, closed: undefined, returned: new Map() };
    const forget = (): void => {
      if (this.#open.get(name) === exchange) this.#open.delete(name);
    };
    channel.then((opened) => {
      opened.on("error", (error) => {
        exchange.closed = error.message;
        forget();
      });
      opened.on("close", forget);
      opened.on("return", ({ properties, fields }) => {
        const { replyText = "" } = fields as { readonly replyText?: string };
        const id = properties.messageId as unknown;
        if (typeof id === "string" && exchange.underWay > 0) exchange.returned.set(id, replyText);
      });
    }, forget);
    return exchange;
  }

  #closeIdle(): void {
    for (const [name, { channel, underWay }] of this.#open) {
      if (this.#open.size <= IDLE) return;
      if (underWay > 0) continue;
      this.#open.delete(name);
      channel.then((opened) => opened.close()).catch(() => undefined);
    }
  }
}
