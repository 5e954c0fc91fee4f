/**
 * How webhooks are verified, as data. Presets and `hmac()`, `ed25519()`, `basic()`, `apiKey()`, `addresses()` return it, and a
 * config may change any field of what they return.
 */
import type { SecretOption } from "../../../core/model/secret-option.ts";

/** A secret, or several while it is being changed: any of them counts. Each may be `secretFrom(…)`. */
export type Secrets = SecretOption | readonly SecretOption[];
/** A text with holes that the request fills, or a list of them: the first one counts whose holes can all be filled. */
export type Texts = string | readonly string[];

/** What is known of the webhooks of a provider, beside how they are verified. */
export interface Provider {
  /** Names it in the status and on the page. @default the kind of the verification */
  readonly name?: string;
  /** Where its id of an event stands: the same at each repeat. @default there is none, and a repeat is another event */
  readonly id?: Texts;
  /** Where the type of an event stands. */
  readonly type?: Texts;
  /** A verified request that is answered at once, with a text, and not stored: the one whose text `of` equals `is`. */
  readonly challenge?: { readonly of: string; readonly is: string; readonly answer: string };
  /** Longest wait for the answer, ms: a little less than the provider waits. @default 10_000 */
  readonly timeoutMs?: number;
}

export interface HmacOptions extends Provider {
  /** The secret that both sides know; a list while it is being changed. May be `secretFrom(…)`. */
  readonly secret: Secrets;
  /** The header with the signature. */
  readonly header: string;
  /** `sha1`, `sha256`, `sha384` or `sha512`. @default "sha256" */
  readonly algorithm?: "sha1" | "sha256" | "sha384" | "sha512";
  /** How the signature is written: `hex` or `base64`. @default "hex" */
  readonly encoding?: "hex" | "base64";
  /** How the secret is written: as it is (`utf8`), `hex`, `base64`, or `whsec`: `whsec_` and base64. @default "utf8" */
  readonly secretEncoding?: "utf8" | "hex" | "base64" | "whsec";
  /**
   * What is signed: a text with the holes `{body}`, `{timestamp}`, `{header.name}`, `{url}` (the option), `{form}` (the fields of
   * a form, sorted). @default "{body}"
   */
  readonly signed?: string;
  /** What stands before each signature, such as `sha256=`; others in the header are passed over. @default nothing */
  readonly prefix?: string;
  /** What stands between several signatures in the header. @default there is one */
  readonly separator?: string;
  /** The header with the time of signing, in epoch seconds or ms; or how it begins in the signature's own header: `{ field: "t=" }`. @default there is none */
  readonly timestamp?: string | { readonly field: string };
  /** How far the time of signing may be from now, ms. @default 300_000 */
  readonly toleranceMs?: number;
  /** The address that the provider knows, exactly: for `{url}`. */
  readonly url?: string;
  /** The query parameter of that address with the SHA-256 of a body that is no form, in hex. */
  readonly bodyHash?: string;
}

export type Hmac = HmacOptions & { readonly by: "hmac" };

export interface Ed25519 extends Omit<HmacOptions, "secret" | "algorithm" | "secretEncoding"> {
  readonly by: "ed25519";
  /** The provider's public key in hex or base64, or `whpk_…`. */
  readonly publicKey: Secrets;
}

export interface Basic extends Provider {
  readonly by: "basic";
  readonly username: string;
  readonly password: Secrets;
}

export interface ApiKey extends Provider {
  readonly by: "apiKey";
  /** The header with the key, behind `prefix`, such as `Bearer `; or the query parameter with it. */
  readonly header?: string;
  readonly prefix?: string;
  readonly query?: string;
  readonly key: Secrets;
}

export interface Addresses extends Provider {
  readonly by: "addresses";
  /** Addresses and CIDRs; those of `server.trustedProxies` are looked through. */
  readonly addresses: readonly string[];
}

export type Verification = Hmac | Ed25519 | Basic | ApiKey | Addresses;

export interface WebhookEndpoint {
  /** The path that the provider sends to, such as `/in/stripe`. Parts behind the first may be `{name}`: see `{path.name}`. */
  readonly path: string;
  /** The API key of the events: a text, which may have the holes `{header.name}`, `{path.name}` and `{body.name.inner}`. */
  readonly keyId: string;
  /** How requests are verified: a preset such as `stripe({ secret })`, or `hmac({ … })`, or a list that must all agree. */
  readonly verify: Verification | readonly Verification[];
  /** Where the provider's id of an event stands, as holes: what repeats it is no other event. Of a list, the first that can be filled. @default as the preset says; else there is none, and a repeat is another event */
  readonly id?: Texts;
  /** The type of the events, as `id` is read. Characters that it may not have become `_`, and `/` a dot. @default as the preset says, else "webhook" */
  readonly type?: Texts;
  /** Headers that receivers get too: the data is `{ headers, body }` then. @default the data is the body */
  readonly headers?: readonly string[];
  /** Longest wait for the answer, ms. What takes longer is answered 503, and is a repeat when it comes again. @default as the preset says, or 10_000 */
  readonly timeoutMs?: number;
  /** True where CloudEvents come: they bring id and type, and the handshake (OPTIONS) of every origin is answered, or of those of a list. @default false */
  readonly cloudEvents?: boolean | readonly string[];
}
