/** Encodes the lines of the journal: JSON, one commit per line, with a checksum that reveals a torn line. */
import { crc32 } from "node:zlib";
import type { KeyWrite } from "../embedded/group.ts";

/** One write of a commit; format 1 also noted there how its folders were split, which no longer matters. */
export type Write = KeyWrite | { readonly split: string };

interface JournalLine {
  readonly writes: readonly Write[];
  /** Where the line ends in its segment. */
  readonly end: number;
}

const HEAD = '{"crc":"';
const MIDDLE = '","writes":';
const crcText = (text: string): string => crc32(text).toString(16).padStart(8, "0");

function commitLine(writes: readonly Write[]): string {
  const text = JSON.stringify(writes);
  return `${HEAD}${crcText(text)}${MIDDLE}${text}}\n`;
}

/** Begins a group of commits. It is an empty commit, so that versions which do not know groups can read it. */
const GROUP_LINE = commitLine([]);

/** Returns the bytes of a group, to be synced once. */
export const groupBytes = (commits: readonly (readonly Write[])[]): Buffer =>
  Buffer.from(GROUP_LINE + commits.map(commitLine).join(""));

/** Voids what a segment contains beyond that length. */
export interface Cut {
  readonly segment: number;
  readonly bytes: number;
}

/** Begins a segment. @param cut of an earlier one */
export const headerLine = (segment: number, cut?: Cut): string =>
  `${JSON.stringify({ journal: 1, segment, groups: true, cut })}\n`;

/** Bytes that no complete commit wrote. `middle`: acknowledged lines follow, so these were acknowledged too. */
export interface JournalDamage {
  readonly start: number;
  readonly text: Uint8Array;
  readonly middle: boolean;
}

interface Segment {
  readonly cut?: Cut;
  readonly lines: readonly JournalLine[];
  readonly damaged: readonly JournalDamage[];
}

interface Header {
  readonly journal: number;
  readonly cut?: Cut;
  /** Its groups can be told apart. Segments of version 0.1.0 have none: there each line is one. */
  readonly groups?: boolean;
}

/**
 * Reads a segment; `last`: none follows. A group, and a segment, begins only after the one before it is synced: damage
 * followed by another one was acknowledged and harmed later. Damage in the very last group is a torn write that nobody
 * was answered; readable lines after it are dropped too, since they may depend on what is missing.
 */
export function readSegment(bytes: Uint8Array, last: boolean): Segment {
  const lines: JournalLine[] = [];
  const damaged: JournalDamage[] = [];
  let header: Header | undefined;
  /** Lines and damage since the first damage of this group. */
  let doubtful: JournalLine[] = [];
  let pieces: Omit<JournalDamage, "middle">[] = [];
  const acknowledged = (): void => {
    lines.push(...doubtful);
    damaged.push(...pieces.map((piece) => ({ ...piece, middle: true })));
    doubtful = [];
    pieces = [];
  };
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(10, start);
    const end = newline < 0 ? bytes.length : newline + 1;
    const text = newline < 0 ? "" : Buffer.from(bytes.subarray(start, end)).toString("utf8");
    const begins = start === 0 ? parseHeader(text) : undefined;
    const writes = parseLine(text);
    header ??= begins;
    if (writes !== undefined) {
      if (writes.length === 0 || header?.groups !== true) acknowledged();
      if (writes.length > 0) (pieces.length > 0 ? doubtful : lines).push({ writes, end });
    } else if (begins === undefined) pieces.push({ start, text: bytes.slice(start, end) });
    start = end;
  }
  if (!last && header?.groups === true) acknowledged();
  const torn = pieces[0];
  if (torn !== undefined) damaged.push({ start: torn.start, text: bytes.slice(torn.start), middle: false });
  return { cut: header?.cut, lines, damaged };
}

function parseHeader(text: string): Header | undefined {
  try {
    const header = JSON.parse(text) as Header;
    return header.journal === 1 ? header : undefined;
  } catch {
    return undefined;
  }
}

/** Returns `undefined` when the checksum is not that of the line. */
function parseLine(text: string): readonly Write[] | undefined {
  const inner = text.slice(HEAD.length + 8 + MIDDLE.length, -2);
  const whole = `${HEAD}${crcText(inner)}${MIDDLE}${inner}}\n`;
  return text === whole ? (JSON.parse(inner) as Write[]) : undefined;
}
