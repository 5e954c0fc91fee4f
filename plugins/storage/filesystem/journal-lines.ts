/** Encodes the lines of the journal: JSON, one commit per line, with a checksum that reveals a torn line. */
import { crc32 } from "node:zlib";

/** One write of a commit: a value, or `null` for a removal; or a note about a split of the files. */
export type Write = readonly [key: string, value: string | null] | { readonly split: string };

export interface JournalLine {
  readonly writes: readonly Write[];
  /** Where the line ends in its segment. */
  readonly end: number;
}

const HEAD = '{"crc":"';
const MIDDLE = '","writes":';
const crcText = (text: string | Uint8Array): string => crc32(text).toString(16).padStart(8, "0");

function commitLine(writes: readonly Write[]): string {
  const text = JSON.stringify(writes);
  return `${HEAD}${crcText(text)}${MIDDLE}${text}}\n`;
}

/** Begins a group of commits. It is an empty commit, so that versions which do not know groups can read it. */
const GROUP_LINE = commitLine([]);
/** A group is written in pieces of about this many characters, so that no single text holds all of it. */
const PIECE = 1 << 20;

/** Yields the bytes of a group, to be written one after the other and synced once. */
export function* groupPieces(commits: readonly (readonly Write[])[]): Generator<Buffer> {
  let text = GROUP_LINE;
  for (const writes of commits) {
    if (text.length >= PIECE) {
      yield Buffer.from(text);
      text = "";
    }
    text += commitLine(writes);
  }
  yield Buffer.from(text);
}

/** Begins a segment; `cut` voids what an earlier segment contains beyond that length. */
export function headerLine(segment: number, cut?: { readonly segment: number; readonly bytes: number }): string {
  return `${JSON.stringify({ journal: 1, segment, groups: true, cut })}\n`;
}

/** Bytes that no complete commit wrote. `middle`: acknowledged lines follow, so these were acknowledged too. */
interface JournalDamage {
  readonly start: number;
  readonly text: Uint8Array;
  readonly middle: boolean;
}

interface Segment {
  readonly cut?: { readonly segment: number; readonly bytes: number };
  readonly lines: readonly JournalLine[];
  readonly damaged: readonly JournalDamage[];
}

interface Header {
  readonly cut?: { readonly segment: number; readonly bytes: number };
  /** Whether its groups can be told apart. Segments of the first version have none. */
  readonly groups?: boolean;
}

/**
 * Reads a segment; `last`: none follows. A group, and a segment, begins only after the one before it is synced: damage
 * followed by another one was acknowledged and harmed later. Damage in the very last group is a torn write that nobody
 * was told of; readable lines after it are dropped too, since they may depend on what is missing.
 */
export function readSegment(bytes: Uint8Array, last: boolean): Segment {
  const lines: JournalLine[] = [];
  const damaged: JournalDamage[] = [];
  let header: Header | undefined;
  /** Lines and damage since the first damage of this group. */
  let doubtful: JournalLine[] = [];
  let pieces: { readonly start: number; readonly text: Uint8Array }[] = [];
  const acknowledged = (): void => {
    lines.push(...doubtful);
    for (const piece of pieces) damaged.push({ ...piece, middle: true });
    doubtful = [];
    pieces = [];
  };
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(10, start);
    const end = newline < 0 ? bytes.length : newline + 1;
    const text = Buffer.from(bytes.subarray(start, end)).toString("utf8");
    const begins = start === 0 ? parseHeader(text) : undefined;
    const writes = begins === undefined && newline >= 0 ? parseLine(text) : undefined;
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
    const header = JSON.parse(text) as Header & { readonly journal?: number };
    return header.journal === 1 && text.endsWith("\n") ? header : undefined;
  } catch {
    return undefined;
  }
}

function parseLine(text: string): readonly Write[] | undefined {
  const crc = text.slice(HEAD.length, HEAD.length + 8);
  const at = HEAD.length + 8 + MIDDLE.length;
  if (!text.startsWith(HEAD) || !text.startsWith(MIDDLE, HEAD.length + 8) || !text.endsWith("}\n")) return undefined;
  const inner = text.slice(at, -2);
  if (crcText(inner) !== crc) return undefined;
  try {
    return JSON.parse(inner) as Write[];
  } catch {
    return undefined;
  }
}
