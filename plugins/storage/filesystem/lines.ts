/** The lines of the journal: JSON, one commit a line, with a checksum, so that a torn one is known for what it is. */
import { crc32 } from "node:zlib";

/** One write of a commit: a value, or `null` for a removal; or a plan of the files' own. */
export type Write = readonly [key: string, value: string | null] | { readonly split: string };

export interface Line {
  readonly writes: readonly Write[];
  /** Where it ends in its segment. */
  readonly end: number;
}

const HEAD = '{"crc":"';
const MIDDLE = '","writes":';
const crcText = (text: string | Uint8Array): string => crc32(text).toString(16).padStart(8, "0");

export function commitLine(writes: readonly Write[]): string {
  const text = JSON.stringify(writes);
  return `${HEAD}${crcText(text)}${MIDDLE}${text}}\n`;
}

/** Begins a segment; `cut` voids what an earlier segment holds beyond that length. */
export function headerLine(segment: number, cut?: { readonly segment: number; readonly bytes: number }): string {
  return `${JSON.stringify({ journal: 1, segment, cut })}\n`;
}

export interface Segment {
  readonly cut?: { readonly segment: number; readonly bytes: number };
  readonly lines: readonly Line[];
  readonly damaged: readonly { readonly start: number; readonly text: Uint8Array; readonly middle: boolean }[];
}

export function readSegment(bytes: Uint8Array): Segment {
  const lines: Line[] = [];
  const pieces: { start: number; text: Uint8Array }[] = [];
  let cut: Segment["cut"];
  let lastGood = 0;
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(10, start);
    const end = newline < 0 ? bytes.length : newline + 1;
    const text = Buffer.from(bytes.subarray(start, end)).toString("utf8");
    const header = start === 0 ? parseHeader(text) : undefined;
    const writes = header === undefined && newline >= 0 ? parseLine(text) : undefined;
    if (header !== undefined) cut = header.cut;
    else if (writes !== undefined) lines.push({ writes, end });
    else pieces.push({ start, text: bytes.slice(start, end) });
    if (header !== undefined || writes !== undefined) lastGood = start;
    start = end;
  }
  return { cut, lines, damaged: pieces.map((piece) => ({ ...piece, middle: piece.start < lastGood })) };
}

function parseHeader(text: string): { cut?: { segment: number; bytes: number } } | undefined {
  try {
    const header = JSON.parse(text) as { journal?: number; cut?: { segment: number; bytes: number } };
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
