/** What a person may see of a response: text, bounded, without secrets. */

const MASK = "[masked]";
const SECRET = /whsec_[A-Za-z0-9+/=_-]*/g;
/** A value cut off by the end of the excerpt is masked when at least this much of it shows. */
const TELLING = 6;

/**
 * The bytes as text (invalid UTF-8 becomes U+FFFD), with signing secrets and the given values masked.
 * @param values what must not show: the subscription's own header values
 */
export function excerptText(bytes: Uint8Array, values: readonly string[]): string {
  if (bytes.length === 0) return "";
  let text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  if (text.includes("whsec_")) text = text.replace(SECRET, MASK);
  for (const value of values) {
    if (value.length < TELLING) continue;
    text = text.replaceAll(value, MASK);
    for (let shown = Math.min(value.length - 1, text.length); shown >= TELLING; shown--) {
      if (!text.endsWith(value.slice(0, shown))) continue;
      text = text.slice(0, -shown) + MASK;
      break;
    }
  }
  return text;
}
