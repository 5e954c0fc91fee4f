/** Verifies requests: what their heads show before a body is read, then the raw bytes, before anything is parsed. */
import { createHmac, createPublicKey, hash, type KeyObject, timingSafeEqual, verify } from "node:crypto";
import { createTrust } from "../../../core/ports/networks.ts";
import type { RouteRequest } from "../../../core/ports/route.ts";
import { type Arrived, type Hole, partsOf } from "./arrived.ts";
import type { Addresses, ApiKey, Basic, Ed25519, Hmac, HmacOptions, Verification } from "./scheme.ts";

/** Says why it is refused, for the operator; `undefined`: it is verified. */
type CheckBody = (arrived: Arrived) => string | undefined;
/** Judges a request whose body has not come: says why it is refused, or returns the check of the body. */
export type CheckRequest = (request: RouteRequest) => string | CheckBody;

type Signed = Hmac | Ed25519;

const VERIFIED: CheckBody = () => undefined;
const TOLERANCE_MS = 300_000;
/** Signatures of one request that are looked at, and fields of a form: more are nobody's. */
const MOST_SIGNATURES = 16;
const MOST_FIELDS = 1_000;

/** @param secrets those of the verification. @throws SyntaxError that says what is wrong with one, without it */
export function verifier(scheme: Verification, secrets: readonly string[], now: () => number): CheckRequest {
  if (scheme.by === "hmac") return signature(scheme, hmacOf(scheme, secrets), now);
  if (scheme.by === "ed25519") return signature(scheme, ed25519Of(scheme, secrets), now);
  if (scheme.by === "basic") return basic(scheme, secrets);
  return scheme.by === "apiKey" ? apiKey(scheme, secrets) : fromAddresses(scheme);
}

/** All of them must let it pass. */
export const everyOne =
  (checks: readonly CheckRequest[]): CheckRequest =>
  (request) => {
    const found = checks.map((check) => check(request));
    const why = found.find((one) => typeof one === "string");
    if (why !== undefined) return why;
    return (arrived) => (found as CheckBody[]).map((body) => body(arrived)).find((one) => one !== undefined);
  };

/** Compares each signature, without its prefix, with what is signed. */
type Matches = (signatures: readonly string[], signed: readonly (string | Uint8Array)[]) => boolean;

/** @throws SyntaxError when one of them is none */
function all<Key>(texts: readonly string[], read: (text: string) => Key | undefined, what: string): readonly Key[] {
  const keys = texts.map(read).filter((key) => key !== undefined);
  if (keys.length < texts.length) throw new SyntaxError(`is no ${what}`);
  return keys;
}

/** Returns the key that a secret of an HMAC stands for; `undefined` where it is not written so, or empty. */
function keyOf(secret: string, encoding: HmacOptions["secretEncoding"] = "utf8"): Buffer | undefined {
  if (encoding === "utf8") return secret === "" ? undefined : Buffer.from(secret);
  const text = encoding === "whsec" ? secret.replace(/^whsec_/, "") : secret;
  const right = encoding === "hex" ? /^(?:[0-9a-f]{2})+$/i : /^[A-Za-z0-9+/]+={0,2}$/;
  return right.test(text) ? Buffer.from(text, encoding === "hex" ? "hex" : "base64") : undefined;
}

function hmacOf({ algorithm = "sha256", encoding = "hex", secretEncoding }: Hmac, secrets: readonly string[]): Matches {
  const keys = all(secrets, (secret) => keyOf(secret, secretEncoding), `secret written in ${secretEncoding ?? "utf8"}`);
  return (signatures, signed) => {
    let found = false;
    for (const key of keys) {
      const hashed = createHmac(algorithm, key);
      for (const piece of signed) hashed.update(piece);
      const expected = Buffer.from(hashed.digest(encoding));
      for (const signature of signatures) {
        const given = Buffer.from(encoding === "hex" ? signature.toLowerCase() : signature);
        // Compares all of them, every time; the length of a digest is known to everybody.
        if (given.length === expected.length && timingSafeEqual(given, expected)) found = true;
      }
    }
    return found;
  };
}

/** SPKI of an Ed25519 public key is this and its 32 bytes (RFC 8410). */
const SPKI = Buffer.from("302a300506032b6570032100", "hex");

function publicKeyOf(text: string): KeyObject | undefined {
  const base64 = text.replace(/^whpk_/, "");
  const raw = Buffer.from(base64, /^[0-9a-f]{64}$/i.test(base64) ? "hex" : "base64");
  if (raw.length !== 32) return undefined;
  return createPublicKey({ key: Buffer.concat([SPKI, raw]), format: "der", type: "spki" });
}

function ed25519Of({ encoding = "hex" }: Ed25519, publicKeys: readonly string[]): Matches {
  const keys = all(publicKeys, publicKeyOf, "Ed25519 public key in hex or base64");
  return (signatures, signed) => {
    const message = Buffer.concat(signed.map((piece) => Buffer.from(piece as string)));
    const given = signatures.map((text) => Buffer.from(text, encoding)).filter(({ length }) => length === 64);
    return keys.some((key) => given.some((one) => verify(null, message, key, one)));
  };
}

/** Returns a part of what is signed; `undefined` where it is missing. */
function pieceOf(part: string | Hole, scheme: Signed, arrived: Arrived, stamp: string) {
  if (typeof part === "string") return part;
  if (part.of === "body") return arrived.bytes;
  if (part.of === "timestamp") return stamp;
  if (part.of === "url") return urlOf(scheme, arrived.request);
  return part.of === "form" ? formOf(scheme, arrived) : arrived.request.header(part.name.toLowerCase());
}

function signature(scheme: Signed, matches: Matches, now: () => number): CheckRequest {
  const { header, prefix = "", separator, timestamp, toleranceMs = TOLERANCE_MS, signed = "{body}" } = scheme;
  const parts = partsOf(signed);

  /** Says why a time of signing is no good. */
  function wrongTime(stamp: string | undefined): string | undefined {
    if (stamp === undefined || !/^\d{1,13}$/.test(stamp)) return "there is no time of signing";
    const off = Math.round((now() - Number(stamp) * (stamp.length > 11 ? 1 : 1_000)) / 1_000);
    if (Math.abs(off) * 1_000 <= toleranceMs) return undefined;
    return `it was signed ${Math.abs(off)} s ${off > 0 ? "ago" : "ahead of this clock"}`;
  }

  return (request) => {
    const given = request.header(header.toLowerCase());
    if (given === undefined) return `there is no header ${header}`;
    const fields = separator === undefined ? [given] : given.split(separator).map((field) => field.trim());
    const after = (begins: string) =>
      fields.flatMap((one) => (one.startsWith(begins) ? [one.slice(begins.length)] : []));
    const stamp =
      typeof timestamp === "string" ? request.header(timestamp.toLowerCase()) : after(timestamp?.field ?? "")[0];
    const late = timestamp === undefined ? undefined : wrongTime(stamp);
    if (late !== undefined) return late;
    const signatures = after(prefix);
    if (signatures.length === 0) return `the header ${header} holds no signature that begins with ${prefix}`;
    return (arrived) => {
      const pieces = parts.map((part) => pieceOf(part, scheme, arrived, stamp ?? ""));
      if (!pieces.every((piece) => piece !== undefined)) return "a part of what is signed is missing";
      return matches(signatures.slice(0, MOST_SIGNATURES), pieces) ? undefined : "the signature is wrong";
    };
  };
}

const hashIn = ({ bodyHash }: Signed, { query }: RouteRequest): string | null =>
  bodyHash === undefined ? null : query.get(bodyHash);

/** The address that the provider knows, with the hash that it adds. */
function urlOf(scheme: Signed, request: RouteRequest): string | undefined {
  const { url = "", bodyHash } = scheme;
  const hashed = hashIn(scheme, request);
  return hashed === null ? url : `${url}${url.includes("?") ? "&" : "?"}${bodyHash}=${hashed}`;
}

/** The fields of a form, sorted; nothing for a body whose hash is in the address. */
function formOf(scheme: Signed, { isForm, bytes, request }: Arrived): string | undefined {
  const hashed = hashIn(scheme, request);
  if (hashed !== null) return hashed.toLowerCase() === hash("sha256", bytes, "hex") ? "" : undefined;
  const fields = isForm ? [...new URLSearchParams(Buffer.from(bytes).toString())] : [];
  if (!isForm || fields.length > MOST_FIELDS) return undefined;
  const sorted = [...new Set(fields.map(([name, value]) => `${name}\0${value}`))].sort();
  return sorted.map((field) => field.replace("\0", "")).join("");
}

const digest = (text: string): Buffer => hash("sha256", text, "buffer");

/** Compares with all of them, every time: the time taken does not reveal which one it was. */
function isAmong(digests: readonly Buffer[], given: string): boolean {
  const presented = digest(given);
  let found = false;
  for (const one of digests) if (timingSafeEqual(one, presented)) found = true;
  return found;
}

function basic({ username }: Basic, passwords: readonly string[]): CheckRequest {
  const digests = passwords.map((password) => digest(`${username}:${password}`));
  return (request) => {
    const [, text] = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(request.header("authorization") ?? "") ?? [];
    if (text === undefined) return "there is no user and password";
    return isAmong(digests, Buffer.from(text, "base64").toString()) ? VERIFIED : "the user or the password is wrong";
  };
}

function apiKey({ header, query = "", prefix = "" }: ApiKey, keys: readonly string[]): CheckRequest {
  const digests = keys.map((key) => digest(header === undefined ? key : prefix + key));
  return (request) => {
    const given = header === undefined ? request.query.get(query) : request.header(header.toLowerCase());
    if (given === undefined || given === null) return "there is no key";
    return isAmong(digests, given) ? VERIFIED : "the key is wrong";
  };
}

function fromAddresses({ addresses }: Addresses): CheckRequest {
  const isAllowed = createTrust(addresses);
  return ({ address }) => (isAllowed(address) ? VERIFIED : "the address may not send");
}
