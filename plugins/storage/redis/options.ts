/** The options of `redis(…)`, the check of them, and the reading of those that are secret. */
import { StartError } from "../../../core/model/errors.ts";
import { unknownOptions } from "../../../core/model/field-errors.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";

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
   * must be given.
   */
  readonly url?: SecretOption;
  /** The sentinels that know which Redis is the master of `name`. */
  readonly sentinels?: readonly RedisNode[];
  /** Group of the sentinels. @default "mymaster" */
  readonly name?: string;
  /** Some nodes of a cluster. All keys carry one hash tag: a cluster adds availability, but does not spread the load. */
  readonly cluster?: readonly RedisNode[];
  /** For sentinels and clusters. */
  readonly username?: string;
  /** For sentinels and clusters. */
  readonly password?: SecretOption;
  /** Of the sentinels themselves. */
  readonly sentinelPassword?: SecretOption;
  /** For sentinels and clusters, which have no URL to state it. `ca`: PEM text, in place of the system's authorities. */
  readonly tls?: boolean | TlsText;
  /** TLS to the sentinels themselves, which often speak in clear beside a Redis that does not. @default false */
  readonly sentinelTls?: boolean | TlsText;
  /** The beginning of every key; nodes with the same prefix are one relay. @default "relay" */
  readonly prefix?: string;
  /** A commit resolves only when this many replicas have it (`WAIT`). @default 0 */
  readonly replicas?: number;
  /**
   * How long a claimed delivery belongs to its node without a renewal, ms: at least 5,000 longer than any attempt may
   * take, 35,000 that is. Renewed while attempts and held waits go on. @default 45_000
   */
  readonly leaseMs?: number;
}

/** Each of them: a type that lacks one does not compile. */
const NAMES = Object.keys({
  url: 0,
  sentinels: 0,
  name: 0,
  cluster: 0,
  username: 0,
  password: 0,
  sentinelPassword: 0,
  tls: 0,
  sentinelTls: 0,
  prefix: 0,
  replicas: 0,
  leaseMs: 0,
} satisfies Record<keyof RedisOptions, 0>);

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

export function problemsOf(options: RedisOptions): { readonly path: string; readonly message: string }[] {
  const problems: { path: string; message: string }[] = [...unknownOptions(options, NAMES)];
  const ways = (["url", "sentinels", "cluster"] as const).filter((way) => options[way] !== undefined);
  if (ways.length !== 1)
    problems.push({ path: ways[1] ?? "url", message: "needs exactly one of url, sentinels and cluster" });
  const { url } = options;
  if (url !== undefined && !(typeof url === "string" ? isRedisUrl(url) : isSecretOption(url)))
    problems.push({ path: "url", message: `${URL_RULE}, or be secretFrom(…)` });
  for (const way of ["sentinels", "cluster"] as const) {
    const nodes = options[way];
    if (nodes === undefined) continue;
    if (!Array.isArray(nodes) || nodes.length === 0) {
      problems.push({ path: way, message: "must be a list with at least one node: [{ host, port }]" });
      continue;
    }
    for (const [i, node] of nodes.entries()) {
      const { host, port } = (node ?? {}) as Partial<(typeof nodes)[number]>;
      if (typeof host !== "string" || host === "" || !Number.isInteger(port) || port < 1 || port > 65_535)
        problems.push({ path: `${way}[${i}]`, message: "needs a host and a port" });
    }
  }
  if (options.prefix !== undefined && !PREFIX.test(options.prefix))
    problems.push({ path: "prefix", message: "must be 1 to 64 letters, digits or _ . : -" });
  for (const path of ["tls", "sentinelTls"] as const) {
    const given: unknown = options[path];
    const right =
      given === undefined || typeof given === "boolean" || typeof (given as TlsText | null)?.ca === "string";
    if (!right) problems.push({ path, message: "must be true, false or { ca }, the text of a PEM file" });
  }
  const { replicas = 0, leaseMs = 45_000 } = options;
  if (!Number.isInteger(replicas) || replicas < 0 || replicas > 100)
    problems.push({ path: "replicas", message: "must be a whole number from 0 to 100" });
  if (!Number.isInteger(leaseMs) || leaseMs < 15_000 || leaseMs > 3_600_000)
    problems.push({ path: "leaseMs", message: "must be 15000 to 3600000" });
  return problems;
}

function isRedisUrl(text: string): boolean {
  try {
    const { protocol, pathname } = new URL(text);
    return ["redis:", "rediss:"].includes(protocol) && /^(\/\d*)?$/.test(pathname);
  } catch {
    return false;
  }
}
