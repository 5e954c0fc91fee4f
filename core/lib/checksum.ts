/**
 * Adds and checks the checksum of a stored record: CRC-32 over the record's text, as the first member of its JSON
 * object.
 *
 * It stands inside the record, so every storage, backup and migration carries it, and an older version can still read
 * the record. A record of the first edition has none. It begins with another member, so no change of a single character
 * makes one look like the other.
 */
import { crc32 } from "node:zlib";

const START = '{"sum":"';
const DIGITS = 8;
/** Where the text begins that the checksum covers. */
const COVERED = START.length + DIGITS + 2;

const hex = (sum: number): string => sum.toString(16).padStart(DIGITS, "0");

/** Puts the checksum in front. @param rest the text of a record after its opening brace */
export const withChecksum = (rest: string): string => `${START}${hex(crc32(rest))}",${rest}`;

/**
 * Checks the checksum of a record and removes it.
 * @param first the beginning of a first-edition record, which has no checksum
 * @returns the record without its checksum, and whether it had one; `undefined` when the text is damaged
 */
export function verified(text: string, first: string): { readonly text: string; readonly summed: boolean } | undefined {
  if (!text.startsWith(START)) return text.startsWith(first) ? { text, summed: false } : undefined;
  const rest = text.slice(COVERED);
  return text.startsWith(`${hex(crc32(rest))}",`, START.length) ? { text: `{${rest}`, summed: true } : undefined;
}

/** A stored text is not as it was written. */
export class ChecksumError extends SyntaxError {}

/** Parses what `verified` returns. @throws ChecksumError, SyntaxError */
export function provenJson(text: string, first: string): unknown {
  const proven = verified(text, first);
  if (proven === undefined) throw damageOf(text);
  return JSON.parse(proven.text);
}

/** Returns what to throw for a text that `verified` refuses. */
export const damageOf = (text: string): SyntaxError =>
  text.startsWith('{"') ? new ChecksumError("the checksum is wrong") : new SyntaxError("the text is not a record");

/** Puts a checksum behind a text that is not JSON. */
export const withSum = (text: string): string => `${text} ${hex(crc32(text))}`;

/** Returns the text before its checksum; `undefined` when it is damaged. */
export function summed(text: string): string | undefined {
  const before = text.slice(0, -DIGITS - 1);
  return withSum(before) === text ? before : undefined;
}
