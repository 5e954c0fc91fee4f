/** The options of `toAmqp()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { TlsFiles } from "../buses/tls-files.ts";

export interface ToAmqpOptions {
  /** Name of the connection in URLs: `amqp://<name>/exchange/routing.key`. */
  readonly name: string;
  /** `amqp://user:password@host:port/vhost`, `amqps://` for TLS. */
  readonly url: SecretOption;
  /** Paths of PEM files, for a URL that begins with `amqps:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}
