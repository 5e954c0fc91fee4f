/**
 * Lists the forms in which a secret value may come back: unchanged, without its scheme, and encoded. A receiver that
 * echoes its request in an error page seldom does so literally.
 */

/** Shorter values are no secrets, and masking them would hide half of a page. */
export const LEAST_CHARS = 6;

/** One form to search for. */
export interface Form {
  readonly text: string;
  /** Its first characters in lower case: a page without them does not contain it. */
  readonly telling: string;
  /** Whether upper and lower case both count. */
  readonly hex: boolean;
}

const formOf = (text: string): Form => ({
  text,
  telling: text.slice(0, LEAST_CHARS).toLowerCase(),
  hex: !/[^0-9a-f]/.test(text),
});

/** All forms, computed once per list of values: a list stays the same until its subscription changes. */
const known = new WeakMap<readonly string[], readonly Form[]>();

/** Returns all forms of the values that are long enough; hex in lower case. */
export function secretForms(values: readonly string[]): readonly Form[] {
  let forms = known.get(values);
  if (forms === undefined) {
    const all = values.flatMap(secretParts).filter((value) => value.length >= LEAST_CHARS);
    forms = [...new Set(all.flatMap((value) => [value, hex(value), ...base64Cores(value)]))].map(formOf);
    known.set(values, forms);
  }
  return forms;
}

/** Returns a value and the secret parts of it: the token after a scheme, the password in `Basic` credentials. */
function secretParts(value: string): readonly string[] {
  const [, scheme, token] = /^(\S+)\s+(\S.*)$/.exec(value) ?? [];
  if (scheme === undefined || token === undefined) return [value];
  if (scheme.toLowerCase() !== "basic") return [value, token];
  const credentials = Buffer.from(token, "base64").toString("utf8");
  return [value, token, credentials, credentials.slice(credentials.indexOf(":") + 1)];
}

const hex = (value: string): string => Buffer.from(value, "utf8").toString("hex");

/** Returns the base64 characters that a value determines wherever it begins in the encoded text, in both alphabets. */
function base64Cores(value: string): readonly string[] {
  const bytes = Buffer.from(value, "utf8");
  const cores = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  const long = cores.filter((core) => core.length >= LEAST_CHARS);
  return [...long, ...long.map((core) => core.replaceAll("+", "-").replaceAll("/", "_"))];
}
