/** `relaybox/verify` checks a delivery for its receiver. It uses node:crypto alone. */
import { createHash, createHmac, createPublicKey, timingSafeEqual, verify } from "node:crypto";

type Value = string | readonly string[] | undefined;
/** Headers as `node:http`, Fetch, a `Map` or any other carrier hands them out. Names are in any case. */
type Headers = Iterable<readonly [name: string, value: Value]> | Readonly<Record<string, Value>>;
/** The raw, unparsed body: bytes, or their text. */
type Body = ArrayBufferView | ArrayBuffer | string;

/** How far a `webhook-timestamp` may be from now, in seconds. */
export const TOLERANCE_SECONDS = 300;

/** Returns the decoded part of a secret; `undefined` when it holds nothing, as where a variable is not set: anybody has that key. */
function keyOf(secret: string): Buffer | undefined {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return key.length === 0 ? undefined : key;
}

/**
 * Checks the hex HMAC-SHA256 signature of the raw body, during a rotation also that of the previous secret.
 * @param secret the whole `whsec_…` text; by an empty one nothing is right
 */
export function verifyHex(body: Body, headers: Headers, secret: string): boolean {
  if (keyOf(secret) === undefined) return false;
  const expected = createHmac("sha256", secret).update(bytesOf(body)).digest("hex");
  return ["x-relay-webhook-signature", "x-relay-webhook-signature-previous"].some((name) =>
    same(one(headers, name), expected),
  );
}

/**
 * Checks the Standard Webhooks signature and the age of its timestamp.
 * @param secret by an empty one nothing is right
 * @param now epoch ms, for tests
 */
export function verifyStandard(body: Body, headers: Headers, secret: string, now = Date.now()): boolean {
  const prefix = signedPrefix(headers, now);
  const key = keyOf(secret);
  if (prefix === undefined || key === undefined) return false;
  const expected = `v1,${createHmac("sha256", key).update(prefix).update(bytesOf(body)).digest("base64")}`;
  return one(headers, "webhook-signature")
    .split(" ")
    .map((candidate) => same(candidate, expected))
    .includes(true);
}

/**
 * Checks the Ed25519 signature (`v1a` of Standard Webhooks) and the age of its timestamp.
 * @param keys the relay's public keys (`whpk_…`), as `/.well-known/relay-keys` publishes them: any of them may have signed
 * @param now epoch ms, for tests
 */
export function verifyEd25519(
  body: Body,
  headers: Headers,
  keys: string | readonly string[],
  now = Date.now(),
): boolean {
  const prefix = signedPrefix(headers, now);
  if (prefix === undefined) return false;
  const signed = Buffer.concat([Buffer.from(prefix), bytesOf(body)]);
  const signatures = one(headers, "webhook-signature")
    .split(" ")
    .filter((text) => text.startsWith("v1a,"))
    .map((text) => Buffer.from(text.slice("v1a,".length), "base64"));
  return [keys].flat().some((text) => {
    const raw = Buffer.from(text.replace(/^whpk_/, ""), "base64");
    if (raw.length !== PUBLIC_BYTES) return false;
    const key = createPublicKey({ key: Buffer.concat([SPKI, raw]), format: "der", type: "spki" });
    return signatures.some((signature) => verify(null, signed, key, signature));
  });
}

/** A request as Fetch, `node:http` and the frameworks on them hand it out. Its body is unread, or is the raw bytes. */
interface Incoming {
  readonly headers: Headers;
  readonly body?: unknown;
  /** Where a framework keeps the bytes beside what it parsed. */
  readonly rawBody?: unknown;
  /** True once the stream of a Fetch request, or of one of `node:http`, was read. */
  readonly bodyUsed?: boolean;
  readonly readableDidRead?: boolean;
}

/** No delivery is longer, unless a transform makes it so. */
const MOST_BYTES = 1_048_576;

/**
 * Reads a request's body and checks the Standard Webhooks signature over it. Nothing is read of a request without a time or
 * an id, and no more than `maxBytes` of any.
 * @param request of Fetch, `node:http`, Express, Fastify (`request` or `request.raw`), …: before a parser has changed its body
 * @param secret by an empty one nothing is right
 * @param options.maxBytes a longer body is wrong. @default 1 MiB
 * @param options.now epoch ms, for tests
 * @returns the body's text; `undefined` for a request that the relay has not signed
 * @throws TypeError when the body was read or parsed before: its bytes are gone
 */
export async function verifyRequest(
  request: Incoming,
  secret: string,
  { maxBytes = MOST_BYTES, now = Date.now() }: { readonly maxBytes?: number; readonly now?: number } = {},
): Promise<string | undefined> {
  const { headers } = request;
  if (signedPrefix(headers, now) === undefined || keyOf(secret) === undefined) return undefined;
  const body = await rawBody(request, maxBytes);
  return body !== undefined && verifyStandard(body, headers, secret, now) ? body.toString("utf8") : undefined;
}

/** @returns `undefined` when it is longer than `maxBytes` */
async function rawBody(request: Incoming, maxBytes: number): Promise<Buffer | undefined> {
  const { body, rawBody: kept, bodyUsed, readableDidRead } = request;
  const raw = [kept, body].find((one) => typeof one === "string" || one instanceof Uint8Array);
  if (raw !== undefined) return Buffer.from(raw as Uint8Array);
  const stream = isStream(body) ? body : isStream(request) ? request : undefined;
  if (bodyUsed === true || readableDidRead === true || (stream === undefined && body !== undefined && body !== null))
    throw new TypeError("the body was read or parsed already: verify its raw bytes, before a parser of JSON runs");
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream ?? []) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const isStream = (value: unknown): value is AsyncIterable<Uint8Array> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value;

/** SPKI of an Ed25519 public key is this and its 32 bytes (RFC 8410). */
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const PUBLIC_BYTES = 32;

/** Returns the text that is signed before the body; `undefined` when a header is missing or the timestamp is too far away. */
function signedPrefix(headers: Headers, now: number): string | undefined {
  const id = one(headers, "webhook-id");
  const timestamp = one(headers, "webhook-timestamp");
  if (id === "" || !/^\d{1,12}$/.test(timestamp)) return undefined;
  if (Math.abs(now / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return undefined;
  return `${id}.${timestamp}.`;
}

/** @param name in lower case */
function one(headers: Headers, name: string): string {
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  const [, value] = pairs.find(([key, held]) => held !== undefined && key.toLowerCase() === name) ?? [];
  return typeof value === "string" ? value : (value?.[0] ?? "");
}

const bytesOf = (body: Body): Uint8Array =>
  ArrayBuffer.isView(body)
    ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
    : Buffer.from(body as ArrayBuffer);

/** Compares hashes, because `timingSafeEqual` throws on different lengths. */
const same = (a: string, b: string): boolean =>
  timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
