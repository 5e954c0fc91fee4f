/** Tokens of a test issuer, good ones and hostile ones: every vector of `jwt.json` can be built here. */
import { createHmac, createPublicKey, createSign, generateKeyPairSync, randomBytes } from "node:crypto";
import type { KeyObject } from "node:crypto";

export const ISSUER = "https://idp.example.com/";
export const AUDIENCE = "webhook-relay";
export const KID = "k1";
export const SECRET = "a-shared-secret-of-at-least-32-bytes!";

type Json = Readonly<Record<string, unknown>>;
const pair = (): { readonly privateKey: KeyObject; readonly publicKey: KeyObject } =>
  generateKeyPairSync("rsa", { modulusLength: 2_048 });

const issuer = pair();
const attacker = pair();

/** The issuer's public key in every form. */
export const pem = issuer.publicKey.export({ format: "pem", type: "spki" }) as string;
export const jwk: Json = { ...issuer.publicKey.export({ format: "jwk" }), kid: KID, alg: "RS256", use: "sig" };
const der = issuer.publicKey.export({ format: "der", type: "spki" });
const modulus = (issuer.publicKey.export({ format: "jwk" }) as { n: string }).n;
const attackerJwk = attacker.publicKey.export({ format: "jwk" });

const b64 = (data: string | Uint8Array): string => Buffer.from(data).toString("base64url");
const part = (value: unknown): string =>
  b64(typeof value === "string" || value instanceof Uint8Array ? value : JSON.stringify(value));

const rs256 =
  (key: KeyObject) =>
  (input: string): Buffer =>
    createSign("sha256").update(input).sign(key);
const hs256 =
  (secret: string | Uint8Array) =>
  (input: string): Buffer =>
    createHmac("sha256", secret).update(input).digest();

/** Any three segments, signed over the first two. `payload` may be raw bytes. */
export function forge(
  header: Json,
  payload: unknown,
  sign: (input: string) => Buffer = rs256(issuer.privateKey),
): string {
  const input = `${part(header)}.${part(payload)}`;
  return `${input}.${b64(sign(input))}`;
}

export const HEADER: Json = { alg: "RS256", kid: KID, typ: "at+jwt" };
const HS: Json = { alg: "HS256", kid: KID, typ: "at+jwt" };

/** Good claims. @param now epoch ms */
export function goodClaims(now: number, more: Json = {}): Json {
  const iat = Math.floor(now / 1_000);
  return { iss: ISSUER, aud: AUDIENCE, sub: "user-a", iat, exp: iat + 600, api_keys: ["key_a"], ...more };
}

const without = (claims: Json, ...names: readonly string[]): Json =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)));

/** A token that is good in every way. */
export const goodToken = (now: number, more: Json = {}): string => forge(HEADER, goodClaims(now, more));
export const sharedToken = (now: number, more: Json = {}): string => forge(HS, goodClaims(now, more), hs256(SECRET));

/** How a vector is sent: most only differ in the token. */
export interface BuiltRequest {
  /** `Authorization`; undefined: none. */
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Added behind the path. */
  readonly query?: string;
}

const bearer = (token: string): BuiltRequest => ({ authorization: `Bearer ${token}` });

/** A vector's request by its id; undefined for one that needs more than a token (JWT-073: a session that was logged out). */
export function buildVector(id: string, now: number): BuiltRequest | undefined {
  const make = BUILDERS[id];
  if (make === undefined) throw new Error(`no builder for ${id}`);
  return make(now, goodClaims(now), Math.floor(now / 1_000));
}

type Builder = (now: number, claims: Json, seconds: number) => BuiltRequest | undefined;

const claim =
  (change: (seconds: number, now: number) => Json): Builder =>
  (now, claims, seconds) =>
    bearer(forge(HEADER, { ...claims, ...change(seconds, now) }));
const header =
  (more: Json, sign?: (input: string) => Buffer): Builder =>
  (_, claims) =>
    bearer(forge({ ...HEADER, ...more }, claims, sign));
const confused =
  (secret: string | Uint8Array): Builder =>
  (_, claims) =>
    bearer(forge(HS, claims, hs256(secret)));
const payload =
  (bytes: string | Uint8Array): Builder =>
  () =>
    bearer(forge(HEADER, bytes));
const reframed =
  (change: (token: string) => string): Builder =>
  (now) =>
    bearer(change(goodToken(now)));
/** Steps up in everything but what `more` says. */
const step = (more: (seconds: number) => Json): Builder => claim(more);
const fresh = (seconds: number): Json => ({ amr: ["mfa"], auth_time: seconds });

const BUILDERS: Readonly<Record<string, Builder>> = {
  "JWT-001": (now) => bearer(goodToken(now, { scope: "events:write" })),
  "JWT-002": claim(() => ({ aud: ["other", AUDIENCE] })),
  "JWT-003": claim((seconds) => ({ iat: seconds - 600, exp: seconds - 10 })),
  "JWT-007": claim(() => ({ foo: { bar: [1, 2] } })),
  "JWT-008": (_, claims) => bearer(`${part({ ...HEADER, alg: "none" })}.${part(claims)}.`),
  "JWT-009": (_, claims) => bearer(`${part({ ...HEADER, alg: "None" })}.${part(claims)}.`),
  "JWT-013": confused(pem),
  "JWT-014": confused(pem.trim()),
  "JWT-015": confused(der),
  "JWT-016": confused(JSON.stringify(jwk)),
  "JWT-017": confused(modulus),
  "JWT-018": confused(""),
  "JWT-019": confused("secret"),
  "JWT-020": (now) => bearer(goodToken(now)),
  "JWT-028": reframed((token) => {
    const [head, body, signature] = token.split(".") as [string, string, string];
    const bytes = Buffer.from(signature, "base64url");
    bytes[0] = (bytes[0] as number) ^ 0x80;
    return `${head}.${body}.${b64(bytes)}`;
  }),
  "JWT-029": (now, claims) => {
    const [head, , signature] = goodToken(now).split(".") as [string, string, string];
    return bearer(`${head}.${part({ ...claims, sub: "user-b", api_keys: ["key_b"] })}.${signature}`);
  },
  "JWT-030": header({}, rs256(attacker.privateKey)),
  "JWT-033": header({ jku: "http://127.0.0.1:1/jwks.json" }, rs256(attacker.privateKey)),
  "JWT-034": header({ x5u: "https://attacker.example/cert.pem" }, rs256(attacker.privateKey)),
  "JWT-035": header({ x5c: [b64(randomBytes(64))] }, rs256(attacker.privateKey)),
  "JWT-036": header({ jku: "https://idp.example.com/jwks.json" }),
  "JWT-038": header({ kid: "x' UNION SELECT 'k'--" }),
  "JWT-039": header({ kid: "|/usr/bin/id" }),
  "JWT-041": header({ kid: "constructor" }),
  "JWT-046": header({ kid: "A".repeat(4_096) }),
  "JWT-047": header({ crit: ["x-exp-policy"], "x-exp-policy": 1 }),
  "JWT-048": header({ crit: [] }),
  "JWT-054": (_, claims) => bearer(forge(HEADER, without(claims, "exp"))),
  "JWT-055": claim(() => ({ exp: "9999999999" })),
  "JWT-056": claim((_, now) => ({ exp: now + 600_000 })),
  "JWT-057": (_, claims) =>
    bearer(forge(HEADER, JSON.stringify({ ...claims, exp: 0 }).replace('"exp":0', '"exp":1e308'))),
  "JWT-058": claim(() => ({ exp: 0 })),
  "JWT-059": claim((seconds) => ({ nbf: seconds + 3_600 })),
  "JWT-061": claim((seconds) => ({ iat: seconds - 172_800, exp: seconds + 60 })),
  "JWT-065": claim(() => ({ iss: "https://idp.example.com" })),
  "JWT-069": (_, claims) => bearer(forge(HEADER, without(claims, "aud"))),
  "JWT-070": claim(() => ({ aud: [{ a: 1 }] })),
  "JWT-072": claim(() => ({ sub: { toString: 1 } })),
  "JWT-073": () => undefined,
  "JWT-075": payload("not JSON"),
  "JWT-076": payload("[]"),
  "JWT-079": payload(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])),
  "JWT-082": reframed((token) => `${token}.x`),
  "JWT-084": reframed((token) => `${token.replaceAll("-", "+").replaceAll("_", "/")}=`),
  "JWT-085": reframed((token) => token.replace(".", ". ")),
  "JWT-089": claim(() => ({ pad: "x".repeat(9_000) })),
  "JWT-093": (now) => ({ authorization: `Bearer bad, Bearer ${goodToken(now)}` }),
  "JWT-094": (now) => ({ query: `?access_token=${goodToken(now)}` }),
  "JWT-095": (now) => ({ headers: { cookie: `access_token=${goodToken(now)}` } }),
  "JWT-096": () => ({ authorization: `Bearer ${"A".repeat(20_000)}` }),
  "JWT-098": (_, claims) =>
    bearer(
      `${part({ alg: "PBES2-HS256+A128KW", enc: "A128GCM", p2c: 2_147_483_647, p2s: b64(randomBytes(16)) })}.${b64(randomBytes(24))}.${b64(randomBytes(12))}.${part(claims)}.${b64(randomBytes(16))}`,
    ),
  "JWT-103": claim(() => ({ sub: "user-b", api_keys: ["key_b"] })),
  "JWT-107": step(() => ({})),
  "JWT-108": step((seconds) => ({ amr: ["pwd"], auth_time: seconds })),
  "JWT-110": step((seconds) => ({ amr: ["mfa"], auth_time: seconds - 301 })),
  "JWT-114": step(() => ({ amr: ["mfa"], auth_time: "now" })),
  "JWT-115": step(() => ({ amr: ["mfa"], auth_time: Number.POSITIVE_INFINITY })),
  "JWT-117": step((seconds) => ({ amr: ["nomfa", "mfa-skipped"], auth_time: seconds })),
  "JWT-119": step((seconds) => ({ amr: [["mfa"]], auth_time: seconds })),
  "JWT-120": step((seconds) => ({ acr: "0", auth_time: seconds })),
  "JWT-121": step((seconds) => ({ mfa: true, auth_time: seconds })),
  "JWT-123": step((seconds) => ({ ...fresh(seconds), sub: "user-b", api_keys: ["key_b"] })),
};

/** A token signed by somebody else, whose own key stands in the header. */
export const selfSigned = (now: number): string =>
  forge({ ...HEADER, jwk: attackerJwk }, goodClaims(now), rs256(attacker.privateKey));

/** A second key of the issuer, as after a rotation. */
export function secondKey(kid: string): { readonly jwk: Json; readonly token: (now: number) => string } {
  const { privateKey } = pair();
  const jwk = { ...createPublicKey(privateKey).export({ format: "jwk" }), kid, alg: "RS256", use: "sig" };
  return { jwk, token: (now) => forge({ ...HEADER, kid }, goodClaims(now), rs256(privateKey)) };
}
