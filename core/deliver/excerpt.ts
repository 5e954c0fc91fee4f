/** Makes the excerpt of a response that people may see: text, bounded, without secrets. */

const MASK = "[masked]";
/** Shorter values are no secrets, and masking them would hide half of a page. */
const LEAST_CHARS = 6;

/** One expression per list of values: a list stays the same until its subscription changes. */
const known = new WeakMap<readonly string[], RegExp>();

/**
 * Returns the bytes as text (invalid UTF-8 becomes U+FFFD). Masks signing secrets and the given values, also where they come
 * back without their scheme, URL-encoded, in hex or in base64. Where the excerpt's end cuts off a word, it leaves that word out: it
 * may be the beginning of a value.
 * @param values what must not show: the subscription's own header values and secrets
 */
export function excerptText(bytes: Uint8Array, values: readonly string[], truncated: boolean): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  let secrets = known.get(values);
  if (secrets === undefined) known.set(values, (secrets = expressionOf(values)));
  const whole = truncated ? text.slice(0, text.search(/[^\s"<>,;{}]*$/)) : text;
  return whole.replace(secrets, MASK);
}

function expressionOf(values: readonly string[]): RegExp {
  const parts = values.flatMap(secretParts).filter((value) => value.length >= LEAST_CHARS);
  const forms = new Set(parts.flatMap(formsOf).toSorted((a, b) => b.length - a.length));
  return new RegExp(["whsec_[A-Za-z0-9+/=_-]*", ...[...forms].map((form) => RegExp.escape(form))].join("|"), "gi");
}

/** Returns a value and the secret parts of it: the token after a scheme, the password in `Basic` credentials. */
function secretParts(value: string): readonly string[] {
  const [, scheme, token] = /^(\S+)\s+(\S.*)$/.exec(value) ?? [];
  if (scheme === undefined || token === undefined) return [value];
  if (scheme.toLowerCase() !== "basic") return [value, token];
  const credentials = Buffer.from(token, "base64").toString("utf8");
  return [value, token, credentials, credentials.slice(credentials.indexOf(":") + 1)];
}

function formsOf(value: string): readonly string[] {
  const bytes = Buffer.from(value, "utf8");
  const base64 = bytes.toString("base64").replace(/=+$/, "");
  return [value, encodeURIComponent(value.toWellFormed()), base64, bytes.toString("base64url"), bytes.toString("hex")];
}
