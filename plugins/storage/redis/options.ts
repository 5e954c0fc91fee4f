/** The options of `redis(…)`, the check of them, and the reading of those that are secret. */
import { StartError } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";
import {
  anything,
  inside,
  must,
  optional,
  optionProblems,
  type Rule,
  type Rules,
  text,
  whole,
} from "../../../core/ports/options.ts";

/** A lease of `redis()` ends after this, where `leaseMs` says nothing else, ms. */
export const LEASE_MS = 45_000;

interface RedisNode {
  readonly host: string;
  readonly port: number;
}

interface TlsText {
  readonly ca: string;
}

export interface RedisOptions {
  /**
   * One Redis: `redis://user:password@host:port/db`, `rediss://` for TLS. Exactly one of `url`, `sentinels`, `cluster`
   * is given.
   */
  readonly url?: SecretOption;
  /** The sentinels that know which Redis is the master of `name`. */
  readonly sentinels?: readonly RedisNode[];
  /** Group of the sentinels. @default "mymaster" */
  readonly name?: string;
  /** Some nodes of a cluster, which adds availability, but does not spread the load: all keys carry one hash tag. */
  readonly cluster?: readonly RedisNode[];
  /** For sentinels and clusters. */
  readonly username?: string;
  /** For sentinels and clusters. */
  readonly password?: SecretOption;
  /** Of the sentinels themselves. */
  readonly sentinelPassword?: SecretOption;
  /** For sentinels and clusters. `ca`: PEM text, in place of the system's authorities. */
  readonly tls?: boolean | TlsText;
  /** TLS to the sentinels themselves. @default false */
  readonly sentinelTls?: boolean | TlsText;
  /** The beginning of every key; nodes with the same prefix are one relay. @default "relay" */
  readonly prefix?: string;
  /** A commit resolves only when this many replicas have it (`WAIT`). @default 0 */
  readonly replicas?: number;
  /**
   * How long a claimed delivery belongs to its node without a renewal, ms: at least 35,000, which no attempt outlasts.
   * Renewed while attempts and held waits go on. @default 45_000
   */
  readonly leaseMs?: number;
}

const SECRETS = ["url", "password", "sentinelPassword"] as const;
type SecretName = (typeof SECRETS)[number];

/** The options with their secrets as text. */
export type ReadOptions = Omit<RedisOptions, SecretName> & { readonly [Name in SecretName]?: string };

const URL_RULE = "must begin with redis:// or rediss://, and may end with the number of a database (/0)";

/** @throws StartError 78 when a secret cannot be read, or is no URL where one is needed */
export function readSecrets(options: RedisOptions, secret: (path: string) => string): ReadOptions {
  const read: Partial<Record<SecretName, string>> = {};
  for (const name of SECRETS) {
    const given = options[name];
    if (given !== undefined) read[name] = typeof given === "string" ? given : secret(name);
  }
  if (read.url !== undefined && !isRedisUrl(read.url)) throw new StartError(78, `redis(): url ${URL_RULE}`);
  return { ...options, ...read } as ReadOptions;
}

const PREFIX = /^[A-Za-z0-9_.:-]{1,64}$/;
const WAYS = ["url", "sentinels", "cluster"] as const;

const node = inside({ host: text("a host"), port: whole(1, 65_535) });
const nodes: Rule = (given, path) => {
  const message = "must be a list with at least one node, each with a host and a port: [{ host, port }]";
  if (!Array.isArray(given) || given.length === 0) return [{ path, message }];
  return given.flatMap((one, i) => (node(one, "").length === 0 ? [] : [{ path: `${path}[${i}]`, message }]));
};
const tls = must(
  "must be true, false or { ca }, the text of a PEM file",
  (given) => typeof given === "boolean" || typeof (given as TlsText | null)?.ca === "string",
);

const RULES: Rules<RedisOptions> = {
  url: optional(
    must(`${URL_RULE}, or be secretFrom(…)`, (given) =>
      typeof given === "string" ? isRedisUrl(given) : isSecretOption(given),
    ),
  ),
  sentinels: optional(nodes),
  name: anything,
  cluster: optional(nodes),
  username: anything,
  password: anything,
  sentinelPassword: anything,
  tls: optional(tls),
  sentinelTls: optional(tls),
  prefix: optional(text("1 to 64 letters, digits or _ . : -", PREFIX)),
  replicas: optional(whole(0, 100)),
  leaseMs: optional(whole(15_000, 3_600_000)),
};

export function problemsOf(options: RedisOptions): readonly FieldError[] {
  const ways = WAYS.filter((way) => options[way] !== undefined);
  const message = "needs exactly one of url, sentinels and cluster";
  return [...(ways.length === 1 ? [] : [{ path: ways[1] ?? "url", message }]), ...optionProblems(options, RULES)];
}

function isRedisUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && ["redis:", "rediss:"].includes(url.protocol) && /^(\/\d*)?$/.test(url.pathname);
}
