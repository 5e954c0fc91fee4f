/** Formats output for a terminal: received text is escaped, and columns are aligned. */

// C0, DEL, C1, bidirectional and invisible marks, line separators, lone surrogates.
const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const escape = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Received text as one safe line: control characters are escaped. */
export const printable = (text: string): string => text.replaceAll(UNSAFE, escape);

/** The same for several lines: line ends and tabs stay. */
export const printableLines = (text: string): string =>
  text.replaceAll(/\r\n/g, "\n").replaceAll(UNSAFE, (char) => (char === "\n" || char === "\t" ? char : escape(char)));

/** JSON for people and programs: indented, and safe on a terminal (the escapes are JSON's own). */
export const json = (value: unknown): string =>
  JSON.stringify(value, null, 2).replaceAll(UNSAFE, (char) => (char === "\n" ? char : escape(char)));

/** JSON text, parsed so that `json` writes numbers as they came: `1.0` and those beyond 2^53 too. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && source !== String(value) ? rawJson(source) : value;
  });
}

// ES2026, not yet in TypeScript's library.
const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

/** Returns a value of an answer as text: an object as JSON. */
export const textOf = (value: unknown): string =>
  typeof value === "object" ? JSON.stringify(value) : String(value as string | number | boolean);

/** Rows under their headings, two spaces apart. A cell is made printable; `undefined` is empty. */
export function printTable(
  headings: readonly string[],
  rows: readonly (readonly (string | number | undefined)[])[],
): string {
  const cells = rows.map((row) => row.map((cell) => printable(String(cell ?? ""))));
  const widths = headings.map((heading, i) => Math.max(heading.length, ...cells.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(headings.map((heading) => heading.toUpperCase())), ...cells.map(line)].join("\n");
}

/** `name   value` lines; what is undefined is left out. */
export function fields(pairs: readonly (readonly [string, string | number | undefined])[]): string {
  const given = pairs.filter(([, value]) => value !== undefined);
  const width = Math.max(...given.map(([name]) => name.length));
  return given.map(([name, value]) => `${name.padEnd(width)}  ${printable(String(value))}`).join("\n");
}

/** An attempt for people: its number, and the replay that it belongs to where there was one. */
export const attemptName = (cycle: number | string, number: number | string): string =>
  Number(cycle) === 0 ? String(number) : `${number}, replay ${cycle}`;

/** Returns the status that an attempt was answered with, or the stage at which it failed. */
export const attemptResult = (attempt: { readonly statusCode?: number; readonly error?: string } | undefined): string =>
  String(attempt?.statusCode ?? attempt?.error ?? "");
