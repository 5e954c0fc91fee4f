/** Reads the lines of an NDJSON file as batches of events, in a stream: memory holds one batch and one line, not the file. */
import type { FileHandle } from "node:fs/promises";
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_EVENT_BYTES } from "../../../core/model/event.ts";

interface SpoolLine {
  /** From 1. */
  readonly number: number;
  /** Empty when `problem` says what is wrong with the bytes: such text is not JSON, so its batch is refused. */
  readonly text: string;
  readonly problem?: string;
}

/** Lines that are accepted or refused together. The same file always comes in the same batches. */
export type SpoolBatch = readonly SpoolLine[];

const CHUNK = 256 * 1024;
const NEWLINE = 10;
const BYTE_ORDER_MARK = "\u{feff}";
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Empty lines are skipped only at the end of the file: elsewhere they are refused like any other line without an event. */
export async function* lineBatches(file: Pick<FileHandle, "read">): AsyncGenerator<SpoolBatch> {
  let lines: SpoolLine[] = [];
  let bytes = 0;
  let number = 0;
  for await (const raw of rawLines(file)) {
    if (lines.length > 0 && (lines.length >= MAX_BATCH_EVENTS || bytes + raw.length > MAX_BATCH_BYTES)) {
      yield lines;
      lines = [];
      bytes = 0;
    }
    lines.push(read(++number, raw));
    bytes += raw.length;
  }
  while (lines.length > 0 && isEmpty(lines.at(-1) as SpoolLine)) lines.pop();
  if (lines.length > 0) yield lines;
}

const isEmpty = (line: SpoolLine): boolean => line.problem === undefined && line.text.trim() === "";

function read(number: number, raw: Buffer): SpoolLine {
  if (raw.length > MAX_EVENT_BYTES) {
    return { number, text: "", problem: `is larger than ${MAX_EVENT_BYTES} bytes` };
  }
  try {
    const text = decoder.decode(raw);
    // Editors put the mark in front of a file; inside of one it is not valid JSON.
    return { number, text: number === 1 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text };
  } catch {
    return { number, text: "", problem: "is not valid UTF-8" };
  }
}

/** Yields lines without their newlines; of a line that is too long, as much as shows that it is. */
async function* rawLines(file: Pick<FileHandle, "read">): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let held = 0;
  const hold = (part: Buffer): void => {
    if (held > MAX_EVENT_BYTES) return;
    parts.push(part);
    held += part.length;
  };
  for (let offset = 0; ;) {
    // A new buffer each time: lines are views into it until they are decoded.
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK, offset);
    if (bytesRead === 0) break;
    const chunk = buffer.subarray(0, bytesRead);
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, start)) {
      hold(chunk.subarray(start, at));
      start = at + 1;
      yield parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      parts = [];
      held = 0;
    }
    if (start < bytesRead) hold(chunk.subarray(start));
    offset += bytesRead;
  }
  if (held > 0) yield Buffer.concat(parts);
}
