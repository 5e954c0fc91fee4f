/** The options of `fromAmqp()`. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { MessageOptions } from "../messages/message.ts";

export const PROTOCOLS = ["amqp:", "amqps:"];

export interface FromAmqpOptions extends MessageOptions {
  /** `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS. It may be `secretFrom({ env: "AMQP_URL" })`. */
  readonly url: SecretOption;
  /** The queue. It must exist: the relay declares nothing. */
  readonly queue: string;
  /** Most messages that RabbitMQ sends ahead of their acknowledgement. @default 2_000 */
  readonly prefetch?: number;
  /**
   * The exchange that a message without a valid event is published to, with the reason in its headers, before it is
   * acknowledged. Without it the message is rejected: RabbitMQ passes it to the dead-letter exchange of the queue, and
   * drops it where the queue has none.
   */
  readonly deadLetterExchange?: string;
  /** @default the name of the queue */
  readonly deadLetterRoutingKey?: string;
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. */
  readonly tls?: TlsOptions;
}
