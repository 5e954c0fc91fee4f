/** The options of `toNats()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { TlsFiles } from "../buses/tls-files.ts";

export interface ToNatsOptions {
  /** Name of the connection in URLs: `nats://<name>/deposits.paid`. */
  readonly name: string;
  /** `nats://host:4222`, or several of one cluster. A login is given in the options below, not here. */
  readonly servers: string | readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  /** The text of a `.creds` file: `secretFrom({ file: "relay.creds" })`. */
  readonly credentials?: SecretOption;
  /** Paths of PEM files. With `{}` the server must have a certificate that the system trusts. */
  readonly tls?: TlsFiles;
}
