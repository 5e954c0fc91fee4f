/** Resolves the escapes of JSON, HTML and URLs, and remembers where each character stood. */

interface Unescaped {
  readonly text: string;
  /** Where each character began in the original, plus one entry for the end. `undefined`: nothing was escaped. */
  readonly at: readonly number[] | undefined;
}

/** The kinds of escapes. Each is resolved by itself: a value may contain what looks like an escape of another kind. */
const KINDS = {
  json: /\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|\\(["'/\\])/gi,
  html: /&#x([0-9a-f]{1,6});|&#(\d{1,7});|&(amp|lt|gt|quot|apos|sol|plus|equals|colon|lowbar);/gi,
  url: /%([0-9a-f]{2})/gi,
} as const;

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

/** Resolves one layer of escapes of one kind: what was escaped twice is still escaped once. */
export function unescaped(text: string, kind: keyof typeof KINDS): Unescaped {
  if (!text.includes(kind === "json" ? "\\" : kind === "html" ? "&" : "%")) return { text, at: undefined };
  const at: number[] = [];
  let out = "";
  let from = 0;
  const copy = (until: number): void => {
    for (let i = from; i < until; i++) at.push(i);
    out += text.slice(from, until);
  };
  for (const found of text.matchAll(KINDS[kind])) {
    copy(found.index);
    out += meant(found, kind);
    at.push(found.index);
    from = found.index + found[0].length;
  }
  if (from === 0) return { text, at: undefined };
  copy(text.length);
  at.push(text.length);
  return { text: out, at };
}

/** Returns the character of one escape. Characters that no secret contains may become any other one. */
function meant([, first = "", second = "", third = ""]: RegExpExecArray, kind: keyof typeof KINDS): string {
  if (kind === "json") return third === "" ? ascii(Number.parseInt(first || second, 16)) : third;
  if (kind === "url") return ascii(Number.parseInt(first, 16));
  if (third !== "") return NAMED[third.toLowerCase()] ?? "?";
  return ascii(first === "" ? Number(second) : Number.parseInt(first, 16));
}

const ascii = (code: number): string => (code < 0x80 ? String.fromCharCode(code) : "\ufffd");
