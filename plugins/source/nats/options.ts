/** The options of `fromNats()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { MessageOptions } from "../messages/message.ts";

export interface FromNatsOptions extends MessageOptions {
  /** `nats://host:4222`, or several of one cluster. Credentials go into the options below. */
  readonly servers: string | readonly string[];
  readonly stream: string;
  /** A durable pull consumer with explicit acknowledgements. It must exist: the relay makes none. */
  readonly consumer: string;
  /** Most messages that are fetched and not acknowledged. @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * The subject that a message without a valid event is published to, with the reason in its headers. A stream must take
   * it. Without it the message is only terminated: the stream keeps it as long as its limits say.
   */
  readonly deadLetterSubject?: string;
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  /** The text of a `.creds` file: `secretFrom({ file: "relay.creds" })`. */
  readonly credentials?: SecretOption;
  /** Texts in PEM, or paths of files, which begin at the config's folder. `{}` asks for TLS with the system's authorities. */
  readonly tls?: {
    readonly ca?: string;
    readonly caFile?: string;
    readonly cert?: string;
    readonly certFile?: string;
    readonly key?: string;
    readonly keyFile?: string;
    /** TLS before the server's greeting. */
    readonly handshakeFirst?: boolean;
  };
}
