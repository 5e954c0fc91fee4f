/** The options of `toMail()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { TlsFiles } from "../buses/tls-files.ts";

export interface MailOptions {
  /** Name of the connection in URLs: `mail://<name>/ops@example.com`. */
  readonly name: string;
  /** `smtp://host:587` with STARTTLS, or `smtps://host:465`. A login is given in the options below, not here. */
  readonly server: string;
  /** The sender's address. */
  readonly from: string;
  /** Addresses that may be written to: `ops@example.com`, or `*@example.com` for all of a domain. */
  readonly to: readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  /** Paths of PEM files. Without it the server must have a certificate that the system trusts. */
  readonly tls?: TlsFiles;
  /** `false` sends in clear over `smtp://`: for a server on the same machine. Never with a password. @default true */
  readonly starttls?: boolean;
}
