/**
 * Builds the signed headers of a delivery.
 *
 * Two families, each over the same body: `X-Relay-Webhook-Signature` (hex HMAC-SHA256 of the raw body) and Standard
 * Webhooks (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 */
import { createHmac, hash } from "node:crypto";
import type { RepeatedHeaders } from "../model/header-names.ts";
import type { Signable } from "../model/attempt.ts";
import { VERSION } from "../model/version.ts";
import { ed25519Signatures, type Ed25519Key } from "./ed25519.ts";
import type { SigningKey } from "./secret.ts";

const USER_AGENT = `Relay/${VERSION}`;

/** Adds to a delivery's signature beside the HMAC headers. */
export interface SignatureOptions {
  /** Keys of the relay that sign too, newest first. */
  readonly ed25519?: readonly Ed25519Key[] | undefined;
  /** Headers that are sent a second time under another name. One that a delivery does not have is left out. */
  readonly repeated?: RepeatedHeaders | undefined;
}

/**
 * @param keys newest first; the second one, if any, is the previous secret in its overlap
 * @param now epoch ms of this attempt
 * @param extra static headers of the subscription, in clear, that may stand beside ours (`mayStandBeside`); an `Accept` of theirs
 * takes the place of ours
 */
export function signedHeaders(
  event: Signable,
  keys: readonly SigningKey[],
  now: number,
  extra?: Readonly<Record<string, string>>,
  { ed25519, repeated }: SignatureOptions = {},
): Record<string, string> {
  const [current, previous] = keys;
  if (current === undefined) throw new Error("a delivery needs at least one live secret");
  const timestamp = String(Math.floor(now / 1000));
  const own = {
    "Content-Type": "application/json",
    // A request without it looks like an attack to web firewalls.
    Accept: "*/*",
    "Accept-Encoding": "identity",
    "User-Agent": USER_AGENT,
    "X-Relay-Webhook-Signature": hexSignature(current, event.body),
    "webhook-id": event.eventId,
    "webhook-timestamp": timestamp,
    "webhook-signature": standardSignature(current, event.eventId, timestamp, event.body),
    "X-Relay-Event": event.type,
    "X-Relay-Attempt": String(event.attempt),
    // RFC 9530
    "Content-Digest": `sha-256=:${hash("sha256", event.body, "base64")}:`,
  };
  const headers: Record<string, string> =
    extra === undefined ? own : { ...extra, ...own, Accept: extra["Accept"] ?? own.Accept };
  if (event.cycle > 0) headers["X-Relay-Replay"] = String(event.cycle);
  if (event.traceparent !== undefined) headers["traceparent"] = event.traceparent;
  if (previous !== undefined) {
    headers["X-Relay-Webhook-Signature-Previous"] = hexSignature(previous, event.body);
    headers["webhook-signature"] += ` ${standardSignature(previous, event.eventId, timestamp, event.body)}`;
  }
  if (ed25519 !== undefined)
    headers["webhook-signature"] += ed25519Signatures(ed25519, event.eventId, timestamp, event.body);
  for (const name in repeated) {
    const value = headers[repeated[name] as string];
    if (value !== undefined) headers[name] = value;
  }
  return headers;
}

const hexSignature = (key: SigningKey, body: Uint8Array): string =>
  createHmac("sha256", key.whole).update(body).digest("hex");

const standardSignature = (key: SigningKey, id: string, timestamp: string, body: Uint8Array): string =>
  `v1,${createHmac("sha256", key.decoded).update(`${id}.${timestamp}.`).update(body).digest("base64")}`;
