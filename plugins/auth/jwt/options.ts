/** The options of `jwt()`, and the check of them. */
import { isLoopbackHost } from "../../../core/lib/loopback.ts";
import { createPublicKey, type KeyObject } from "node:crypto";
import {
  anything,
  must,
  optional,
  optionProblems,
  text,
  texts,
  whole,
  type Rule,
} from "../../../core/ports/options.ts";
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

/** Returns true when the key may be used with the algorithm; RSA keys of less than 2048 bits may not. */
export function fitsAlgorithm(key: KeyObject, alg: string): boolean {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (HMAC.has(alg)) return key.type === "secret";
  if (key.type !== "public") return false;
  if (RSA.has(alg)) return type === "rsa" && (details?.modulusLength ?? 0) >= 2_048;
  return alg in CURVES && (type === CURVES[alg] || (type === "ec" && details?.namedCurve === CURVES[alg]));
}

/** Returns every problem at once; none of them repeats a secret. */
export function jwtProblems(options: JwtOptions): readonly FieldError[] {
  const given = SOURCES.filter((name) => Object.hasOwn(options ?? {}, name));
  const algs: readonly unknown[] = Array.isArray(options?.algorithms) ? options.algorithms : [];
  // Of a key that is given, even `undefined` is a problem: its variable may not be set.
  const key = (name: (typeof SOURCES)[number], rule: Rule): Rule => (given.includes(name) ? rule : anything);
  const found = optionProblems<JwtOptions>(options, {
    algorithms: () => (given.length === 1 ? algorithmProblems(algs, given[0] === "secret") : algorithmProblems(algs)),
    issuer: TEXT,
    audience: texts("text, not empty, or a list of such texts", /\S/, true),
    typ: optional(TEXT),
    maxTokenAgeMs: optional(whole(1_000, 366 * 86_400_000)),
    clockToleranceMs: optional(whole(0, 600_000)),
    secret: key("secret", secretRule),
    publicKey: key("publicKey", publicKeyRule(algs)),
    keys: key("keys", keysRule),
    jwksUrl: key("jwksUrl", must("must be an https: URL (http: on loopback only) without credentials", isJwksUrl)),
  });
  const message = "jwt() needs exactly one of secret, publicKey, keys and jwksUrl";
  return given.length === 1 ? found : [{ path: "", message }, ...found];
}

const TEXT = text("text, not empty", /\S/);

/** @param symmetric whether the key is a secret; `undefined` where that is not known */
function algorithmProblems(algs: readonly unknown[], symmetric?: boolean): readonly FieldError[] {
  const wrong = (message: string): FieldError => ({ path: "algorithms", message });
  if (algs.length === 0) return [wrong("must name at least one algorithm")];
  return algs.flatMap((alg) => {
    if (typeof alg !== "string" || !(HMAC.has(alg) || RSA.has(alg) || Object.hasOwn(CURVES, alg)))
      return [wrong("must be of HS256…512, RS256…512, PS256…512, ES256…512, EdDSA")];
    if (symmetric === undefined || HMAC.has(alg) === symmetric) return [];
    return [wrong(symmetric ? `${alg} needs a public key, not a secret` : `${alg} needs a secret`)];
  });
}

/** RFC 7518 wants as many bytes as the hash has. */
export const isShort = (secret: string): boolean => Buffer.byteLength(secret) < 32;

const secretRule: Rule = (secret, path) => {
  if (!isSecretOption(secret)) return [{ path, message: "is empty: is its variable set?" }];
  return must("must be at least 32 bytes", () => typeof secret !== "string" || !isShort(secret))(secret, path);
};

const publicKeyRule =
  (algs: readonly unknown[]): Rule =>
  (given, path) => {
    const key = publicKeyOf(given);
    if (key === undefined) return [{ path, message: "must be a public key, as PEM or JWK" }];
    const fits = algs.some((alg) => typeof alg === "string" && fitsAlgorithm(key, alg));
    return must("does not fit any of the algorithms (RSA keys must have 2048 bits or more)", () => fits)(given, path);
  };

const keysRule: Rule = (keys, path) => {
  if (!Array.isArray(keys) || keys.length === 0) return [{ path, message: "must contain at least one JWK" }];
  const rule = must("must be a public JWK", (jwk) => publicKeyOf(jwk) !== undefined);
  return keys.flatMap((jwk, i) => rule(jwk, `${path}[${i}]`));
};

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
