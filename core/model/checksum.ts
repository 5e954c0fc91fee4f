/**
 * The checksum of a stored record: CRC-32 over the text of the record, as the first member of its JSON object.
 *
 * It stands inside the record, so every storage, backup and migration carries it, and an older version reads the record
 * as before. A record of the first edition has none: it begins with another member, so that no change of a single
 * character makes the one look like the other.
 */
import { crc32 } from "node:zlib";

const START = '{"sum":"';
const DIGITS = 8;
/** Where the text that the checksum covers begins. */
const COVERED = START.length + DIGITS + 2;

const BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const hex = (sum: number): string =>
  `${BYTES[sum >>> 24]}${BYTES[(sum >>> 16) & 255]}${BYTES[(sum >>> 8) & 255]}${BYTES[sum & 255]}`;

/** Puts the checksum in front. @param rest the text of a record behind its opening brace */
export const withChecksum = (rest: string): string => `${START}${hex(crc32(rest))}",${rest}`;

/**
 * Looks at the checksum of a record and takes it out.
 * @param first how a record of the first edition begins, which has no checksum
 * @returns the record without its checksum, and whether there was one; `undefined` when the text is damaged
 */
export function verified(text: string, first: string): { readonly text: string; readonly summed: boolean } | undefined {
  if (!text.startsWith(START)) return text.startsWith(first) ? { text, summed: false } : undefined;
  const rest = text.slice(COVERED);
  return text.startsWith(`${hex(crc32(rest))}",`, START.length) ? { text: `{${rest}`, summed: true } : undefined;
}
