/** Makes the excerpt of a response that people may see: text, bounded, without secrets. */
import { LEAST_CHARS, secretForms, type Form } from "./secret-forms.ts";
import { unescaped } from "./unescaped.ts";

const MASK = "[masked]";
const SECRET = /whsec_[A-Za-z0-9+/=_-]*/g;
/** Layers of escapes that are resolved: JSON in HTML in a URL. */
const LAYERS = 3;

/** Most texts that are searched. */
const READINGS = 24;

/** The response, or its text with escapes resolved. */
interface Reading {
  readonly text: string;
  /** Maps a character to its place in the response. */
  readonly place: (at: number) => number;
  readonly depth: number;
}

type Span = readonly [from: number, to: number];

/**
 * Returns the bytes as text (invalid UTF-8 becomes U+FFFD), with signing secrets and the given values masked, also
 * where they come back without their scheme, escaped (JSON, HTML, percent), in hex or in base64, or cut off by the
 * excerpt's end.
 * @param values what must not show: the subscription's own header values and secrets
 */
export function excerptText(bytes: Uint8Array, values: readonly string[]): string {
  if (bytes.length === 0) return "";
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  if (text.length < LEAST_CHARS) return text;
  const forms = secretForms(values);
  const spans: Span[] = [];
  // Kind after kind, in every order: a value may contain what looks like an escape of another kind.
  const readings: Reading[] = [{ text, place: (at) => at, depth: 0 }];
  for (let i = 0; i < readings.length && i < READINGS; i++) {
    const { text: read, place, depth } = readings[i] as Reading;
    for (const [from, to] of spansIn(read, forms)) spans.push([place(from), place(to)]);
    if (depth === LAYERS) continue;
    for (const kind of ["json", "html", "url"] as const) {
      const { text: next, at } = unescaped(read, kind);
      if (at === undefined || readings.some((one) => one.text === next)) continue;
      readings.push({ text: next, place: (to) => place(at[to] as number), depth: depth + 1 });
    }
  }
  return masked(text, spans);
}

function* spansIn(text: string, forms: readonly Form[]): Generator<Span> {
  for (const { index, 0: found } of text.matchAll(SECRET)) yield [index, index + found.length];
  const lower = text.toLowerCase();
  for (const { text: form, telling, hex } of forms) {
    if (!lower.includes(telling)) continue;
    const within = hex ? lower : text;
    for (let at = within.indexOf(form); at >= 0; at = within.indexOf(form, at + form.length))
      yield [at, at + form.length];
    const cut = cutOff(within, form);
    if (cut !== undefined) yield [cut, text.length];
  }
}

/**
 * Returns where a value begins that the end of the text cuts off, when enough of it shows. The receiver chooses the text and
 * the subscriber the value: so each character is read once, whatever they repeat (Knuth, Morris and Pratt).
 */
function cutOff(text: string, form: string): number | undefined {
  /** For each beginning of the form, how long the longest beginning is that it also ends with. */
  const borders = new Uint16Array(form.length);
  let shown = 0;
  const read = (char: number): number => {
    while (shown > 0 && char !== form.charCodeAt(shown)) shown = borders[shown - 1] as number;
    return char === form.charCodeAt(shown) ? ++shown : shown;
  };
  for (let i = 1; i < form.length; i++) borders[i] = read(form.charCodeAt(i));
  shown = 0;
  for (let i = Math.max(0, text.length - form.length + 1); i < text.length; i++) read(text.charCodeAt(i));
  return shown >= LEAST_CHARS ? text.length - shown : undefined;
}

function masked(text: string, spans: readonly Span[]): string {
  if (spans.length === 0) return text;
  let out = "";
  let end = 0;
  for (const [from, to] of spans.toSorted((a, b) => a[0] - b[0] || b[1] - a[1])) {
    if (to <= end) continue;
    if (from >= end) out += text.slice(end, from) + MASK;
    end = to;
  }
  return out + text.slice(end);
}
