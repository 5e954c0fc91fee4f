/** The options of `toRedisStream()`. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { TlsFiles } from "../buses/tls-files.ts";

export interface ToRedisStreamOptions {
  /** Name of the connection in URLs: `redis-stream://<name>/deposits`. */
  readonly name: string;
  /** `redis://user:password@host:port/db`, `rediss://` for TLS. */
  readonly url: SecretOption;
  /** About how many entries a stream keeps; Redis removes the oldest beyond that. All are kept without it. */
  readonly maxLen?: number;
  /** Paths of PEM files, for a URL that begins with `rediss:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}
