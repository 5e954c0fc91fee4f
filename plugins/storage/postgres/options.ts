/** The options of `postgres()`: what they may be, and the secrets in them. */
import { StartError } from "../../../core/model/errors.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import { must, optional, type Rules, text, whole } from "../../../core/ports/options.ts";

/** A lease of `postgres()` ends after this, where `leaseMs` says nothing else, ms. */
export const LEASE_MS = 45_000;
export const SCHEMA = "relay";

export interface PostgresStorageOptions {
  /**
   * `postgres://user:password@host:port/database`. Several hosts, with commas between them, are tried in turn: the one that
   * takes writes is used. `?sslmode=verify-full&sslrootcert=ca.pem` for TLS.
   */
  readonly url: SecretOption;
  /** Where all tables and functions are; nodes with the same database and schema are one relay. @default "relay" */
  readonly schema?: string;
  /**
   * The server itself, where `url` is a pooler such as PgBouncer: for what needs a session, LISTEN and the making of the
   * schema. Without it a relay behind a pooler looks every 250 ms. @default url
   */
  readonly directUrl?: SecretOption;
  /**
   * How long a claimed delivery belongs to its node without a renewal, ms: at least 5,000 longer than any attempt may
   * take, 35,000 that is. Renewed while attempts and held waits go on. @default 45_000
   */
  readonly leaseMs?: number;
}

const URL_RULE = "must begin with postgres:// or postgresql://, a host behind it";
const isRight = (given: unknown): boolean =>
  isSecretOption(given) && (typeof given !== "string" || urlsOf(given) !== undefined);
const url = must(`${URL_RULE}, or be secretFrom(…)`, isRight);

export const RULES: Rules<PostgresStorageOptions> = {
  url,
  schema: optional(text("1 to 40 small letters, digits or _, the first a letter", /^[a-z][a-z0-9_]{0,39}$/)),
  directUrl: optional(url),
  leaseMs: optional(whole(15_000, 3_600_000)),
};

/** Returns one URL for each host that it names; `undefined` for what is none of a PostgreSQL. */
export function urlsOf(given: string): readonly string[] | undefined {
  const [, head, hosts, rest] = /^(postgres(?:ql)?:\/\/(?:[^@/]*@)?)([^/?@]*)([/?].*)?$/.exec(given) ?? [];
  if (head === undefined || hosts === undefined) return undefined;
  const urls = hosts.split(",").map((host) => `${head}${host}${rest ?? ""}`);
  return urls.every((one) => URL.canParse(one)) ? urls : undefined;
}

/** @throws StartError 78 when a secret cannot be read, or is no URL */
export function readUrl(
  name: "url" | "directUrl",
  given: SecretOption | undefined,
  secret: (path: string) => string,
): readonly string[] | undefined {
  if (given === undefined) return undefined;
  const urls = urlsOf(typeof given === "string" ? given : secret(name));
  if (urls === undefined) throw new StartError(78, `postgres(): ${name} ${URL_RULE}`);
  return urls;
}
