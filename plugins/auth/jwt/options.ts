/** The options of `jwt()`, and the check of them. */
import { isLoopbackHost } from "../../../core/model/loopback.ts";
import { createPublicKey, type KeyObject } from "node:crypto";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption, type SecretOption } from "../../../core/model/secret-option.ts";

/** RFC 7517. */
type Jwk = Readonly<Record<string, unknown>>;

export interface JwtOptions {
  /** HMAC secret, at least 32 bytes; for HS256, HS384, HS512. It may be `secretFrom({ env: "JWT_SECRET" })`. */
  readonly secret?: SecretOption;
  /** Public key: PEM (SPKI or certificate) or a JWK. */
  readonly publicKey?: string | Jwk;
  /** Public keys as a list of JWKs, each with a `kid`. */
  readonly keys?: readonly Jwk[];
  /** Where the issuer publishes its keys. HTTPS, or HTTP on loopback. */
  readonly jwksUrl?: string;
  /** Exactly these algorithms. */
  readonly algorithms: readonly string[];
  /** `iss`, exactly. */
  readonly issuer: string;
  /** `aud` must contain any of these. */
  readonly audience: string | readonly string[];
  /** The token type in the header, such as `at+jwt`. @default any */
  readonly typ?: string;
  /** Longest age, and longest life, of a token. @default 86_400_000 */
  readonly maxTokenAgeMs?: number;
  /** How far clocks may differ. @default 30_000 */
  readonly clockToleranceMs?: number;
}

export const MAX_TOKEN_AGE_MS = 86_400_000;
export const CLOCK_TOLERANCE_MS = 30_000;

const HMAC: ReadonlySet<string> = new Set(["HS256", "HS384", "HS512"]);
const RSA: ReadonlySet<string> = new Set(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]);
/** The key that each algorithm needs. */
const CURVES: Readonly<Record<string, string>> = {
  ES256: "prime256v1",
  ES384: "secp384r1",
  ES512: "secp521r1",
  EdDSA: "ed25519",
  Ed25519: "ed25519",
};
const SOURCES = ["secret", "publicKey", "keys", "jwksUrl"] as const;
const KNOWN: ReadonlySet<string> = new Set([
  ...SOURCES,
  "algorithms",
  "issuer",
  "audience",
  "typ",
  "maxTokenAgeMs",
  "clockToleranceMs",
]);

/** Whether the key may be used with the algorithm; RSA keys of less than 2048 bits may not. */
export function fitsAlgorithm(key: KeyObject, alg: string): boolean {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (HMAC.has(alg)) return key.type === "secret";
  if (key.type !== "public") return false;
  if (RSA.has(alg)) return type === "rsa" && (details?.modulusLength ?? 0) >= 2_048;
  return alg in CURVES && (type === CURVES[alg] || (type === "ec" && details?.namedCurve === CURVES[alg]));
}

/** Returns every problem at once; none of them repeats a secret. */
export function jwtProblems(options: JwtOptions): readonly FieldError[] {
  const found: FieldError[] = [];
  const wrong = (path: string, message: string): void => void found.push({ path, message });
  if (typeof options !== "object" || options === null)
    return [{ path: "", message: "jwt() takes an object of options" }];
  for (const name of Object.keys(options)) if (!KNOWN.has(name)) wrong(name, "is not an option of jwt()");
  const given = SOURCES.filter((name) => name in options);
  if (given.length !== 1) wrong("", "jwt() needs exactly one of secret, publicKey, keys and jwksUrl");
  const { algorithms, issuer, audience, typ } = options;
  const algs = Array.isArray(algorithms) ? (algorithms as readonly unknown[]) : [];
  if (algs.length === 0) wrong("algorithms", "must name at least one algorithm");
  const symmetric = given.includes("secret");
  for (const alg of algs) {
    if (typeof alg !== "string" || !(HMAC.has(alg) || RSA.has(alg) || Object.hasOwn(CURVES, alg)))
      wrong("algorithms", "must be of HS256…512, RS256…512, PS256…512, ES256…512, EdDSA");
    else if (given.length === 1 && HMAC.has(alg) !== symmetric)
      wrong("algorithms", symmetric ? `${alg} needs a public key, not a secret` : `${alg} needs a secret`);
  }
  if (!isText(issuer)) wrong("issuer", "must be text, not empty");
  const audiences: readonly unknown[] = Array.isArray(audience) ? audience : [audience];
  if (audiences.length === 0 || !audiences.every(isText))
    wrong("audience", "must be text, not empty, or a list of such texts");
  if (typ !== undefined && !isText(typ)) wrong("typ", "must be text, not empty");
  duration("maxTokenAgeMs", options.maxTokenAgeMs, 1_000, 366 * 86_400_000, wrong);
  duration("clockToleranceMs", options.clockToleranceMs, 0, 600_000, wrong);
  for (const name of given) keyProblems(name, options, algs, wrong);
  return found;
}

type Wrong = (path: string, message: string) => void;

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";

function duration(path: string, value: unknown, min: number, max: number, wrong: Wrong): void {
  if (value === undefined) return;
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max)
    wrong(path, `must be whole milliseconds, ${min} to ${max}`);
}

/** RFC 7518 wants as many bytes as the hash has. */
export const isShort = (secret: string): boolean => Buffer.byteLength(secret) < 32;

function keyProblems(
  name: (typeof SOURCES)[number],
  options: JwtOptions,
  algs: readonly unknown[],
  wrong: Wrong,
): void {
  if (name === "secret") {
    const { secret } = options;
    if (!isSecretOption(secret)) wrong(name, "is empty: is its variable set?");
    else if (typeof secret === "string" && isShort(secret)) wrong(name, "must be at least 32 bytes");
  } else if (name === "jwksUrl") {
    if (!isJwksUrl(options.jwksUrl)) wrong(name, "must be an https: URL (http: on loopback only) without credentials");
  } else if (name === "publicKey") {
    const key = publicKeyOf(options.publicKey);
    if (key === undefined) wrong(name, "must be a public key, as PEM or JWK");
    else if (!algs.some((alg) => typeof alg === "string" && fitsAlgorithm(key, alg)))
      wrong(name, "does not fit any of the algorithms (RSA keys must have 2048 bits or more)");
  } else {
    const keys = Array.isArray(options.keys) ? options.keys : [];
    if (keys.length === 0) wrong(name, "must contain at least one JWK");
    for (const [i, jwk] of keys.entries())
      if (publicKeyOf(jwk) === undefined) wrong(`keys[${i}]`, "must be a public JWK");
  }
}

function isJwksUrl(value: unknown): boolean {
  if (typeof value !== "string" || !URL.canParse(value)) return false;
  const { protocol, hostname, username, password } = new URL(value);
  if (username !== "" || password !== "") return false;
  return protocol === "https:" || (protocol === "http:" && isLoopbackHost(hostname));
}

/** Returns the public key of a PEM text or a JWK; undefined for anything else, including private and symmetric keys. */
export function publicKeyOf(value: unknown): KeyObject | undefined {
  try {
    if (typeof value === "string") return value.includes("PRIVATE KEY") ? undefined : createPublicKey(value);
    if (typeof value !== "object" || value === null || "d" in value) return undefined;
    return createPublicKey({ key: value, format: "jwk" });
  } catch {
    return undefined;
  }
}
