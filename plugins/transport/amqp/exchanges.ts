/**
 * Publishes to exchanges, over a channel for each: the broker closes the channel of a publisher that names an exchange
 * which is not there, and with it goes all that was under way on it.
 */
import type { Connection, Publisher, ReturnedMessage } from "rabbitmq-client";
import type { TransportRequest } from "../../../core/ports/transport.ts";

/** Most channels that are kept open without a message under way. */
const IDLE = 64;

interface Exchange {
  readonly publisher: Publisher;
  underWay: number;
  /** What the broker sent back, by message id: the reason that it gave. */
  readonly returned: Map<string, string>;
}

export class Exchanges {
  readonly #connection: Connection;
  /** In the order of last use. */
  readonly #open = new Map<string, Exchange>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Resolves once the broker has confirmed the message: to `undefined`, or to its reason when it sent the message back.
   * @throws AMQPError with the code NACK; AMQPChannelError when it closed the channel; AMQPConnectionError, or what the
   * socket says, when the connection is lost
   */
  async publish(name: string, routingKey: string, request: TransportRequest): Promise<string | undefined> {
    const { headers, body, messageId } = request;
    const exchange = this.#exchange(name);
    exchange.underWay++;
    try {
      await exchange.publisher.send(
        {
          exchange: name,
          routingKey,
          mandatory: true,
          durable: true,
          messageId,
          // No content type beside the header of that name: clients would hand on parsed JSON, not the bytes that are signed.
          headers: { ...headers },
        },
        Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      );
      // The client hands on what came back a turn of the event loop later than the confirmation that followed it.
      await new Promise((turned) => setImmediate(turned));
      const reason = exchange.returned.get(messageId);
      exchange.returned.delete(messageId);
      return reason;
    } finally {
      exchange.underWay--;
    }
  }

  #exchange(name: string): Exchange {
    const known = this.#open.get(name);
    this.#open.delete(name);
    const exchange = known ?? this.#made();
    this.#open.set(name, exchange);
    if (this.#open.size > IDLE) this.#closeIdle();
    return exchange;
  }

  #made(): Exchange {
    const publisher = this.#connection.createPublisher({ confirm: true, maxAttempts: 1 });
    const exchange: Exchange = { publisher, underWay: 0, returned: new Map() };
    publisher.on("basic.return", ({ messageId, replyText }: ReturnedMessage) => {
      if (messageId !== undefined && exchange.underWay > 0) exchange.returned.set(messageId, replyText);
    });
    return exchange;
  }

  #closeIdle(): void {
    for (const [name, { publisher, underWay }] of this.#open) {
      if (this.#open.size <= IDLE) return;
      if (underWay > 0) continue;
      this.#open.delete(name);
      publisher.close().catch(() => undefined);
    }
  }
}
