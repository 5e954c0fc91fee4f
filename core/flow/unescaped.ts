/** Text with the escapes of JSON, HTML and URLs resolved, and where each of its characters stood. */

export interface Unescaped {
  readonly text: string;
  /** Where each character began in the original; one entry more, for the end. `undefined`: nothing was escaped. */
  readonly at: readonly number[] | undefined;
}

const ESCAPE =
  /\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|\\(["'/\\])|&#x([0-9a-f]{1,6});|&#(\d{1,7});|&(amp|lt|gt|quot|apos|sol|plus|equals|colon|lowbar);|%([0-9a-f]{2})/gi;

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  sol: "/",
  plus: "+",
  equals: "=",
  colon: ":",
  lowbar: "_",
};

/** Resolves one layer of escapes: what was escaped twice is still escaped once. */
export function unescaped(text: string): Unescaped {
  if (!/[\\&%]/.test(text)) return { text, at: undefined };
  const at: number[] = [];
  let out = "";
  let from = 0;
  const copy = (until: number): void => {
    for (let i = from; i < until; i++) at.push(i);
    out += text.slice(from, until);
  };
  for (const found of text.matchAll(ESCAPE)) {
    copy(found.index);
    out += meant(found);
    at.push(found.index);
    from = found.index + found[0].length;
  }
  if (from === 0) return { text, at: undefined };
  copy(text.length);
  at.push(text.length);
  return { text: out, at };
}

/** One character for one escape; what no secret holds may become any other one. */
function meant([, unicode, byte, plain, hexEntity, entity, name, percent]: RegExpExecArray): string {
  if (plain !== undefined) return plain;
  if (name !== undefined) return NAMED[name.toLowerCase()] ?? "?";
  if (entity !== undefined) return ascii(Number(entity));
  return ascii(Number.parseInt(unicode ?? byte ?? hexEntity ?? percent ?? "", 16));
}

const ascii = (code: number): string => (code < 0x80 ? String.fromCharCode(code) : "\ufffd");
