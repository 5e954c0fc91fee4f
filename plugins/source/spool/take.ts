/** Publishes one spool file, batch by batch, and reports what was stored, what was refused and why. */
import { hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { skipSpace, utf8 } from "../../../core/lib/json.ts";
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_EVENT_BYTES } from "../../../core/model/event.ts";
import { isLater, Problem, type FieldError } from "../../../core/model/problem.ts";
import type { Accept } from "../../../core/ports/source.ts";
import type { OpenedSpool } from "./folder.ts";
import { covers, withRange, type ReadPosition, type LineRange } from "./read-position.ts";

interface LineError {
  /** From 1; absent when the error concerns all lines of a batch. */
  readonly line?: number;
  readonly field?: string;
  readonly code: string;
  readonly message: string;
}

export type TakenIn =
  | { readonly kind: "stored"; readonly lines: number }
  | {
      readonly kind: "refused";
      readonly stored: readonly LineRange[];
      readonly errors: readonly LineError[];
      /** Errors beyond those listed. */
      readonly more: number;
    }
  /** It stays where it is. With `retryAfterMs`, every other file does too: nothing can be stored now. */
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs?: number };

export interface Taking {
  readonly accept: Accept;
  readonly progress: ReadPosition;
  readonly stopping: AbortSignal;
}

/** Errors listed for one file, so that a large invalid file cannot fill the memory. */
const ERRORS_LISTED = 100_000;
const PLACE = /^\[(\d+)\]\.?(.*)$/s;

/**
 * Each batch is all or nothing. So is a file of at most 1,000 events and 8 MiB, being one batch; of a larger one the
 * batches without a mistake are stored and the others refused, and `stored` says which lines those were.
 * @throws what reading the file or the progress throws
 */
export async function takeIn(opened: OpenedSpool, { accept, progress, stopping }: Taking): Promise<TakenIn> {
  const { file, identity } = opened;
  let stored = await progress.read(identity);
  const errors: LineError[] = [];
  let more = 0;
  let lines = 0;
  for await (const batch of lineBatches(file)) {
    const [first, last] = [(batch[0] as SpoolBatch[number]).number, (batch.at(-1) as SpoolBatch[number]).number];
    lines = last;
    if (covers(stored, first)) continue;
    if (stopping.aborted) return { kind: "later", reason: "stopping" };
    // Its writer should have renamed it when it was complete.
    if (!(await opened.unchanged())) return { kind: "later", reason: "still being written" };
    try {
      await accept(requestOf(batch, identity, first));
    } catch (error) {
      if (!(error instanceof Problem)) return { kind: "later", reason: String(error) };
      if (isLater(error)) return postponed(error);
      for (const one of lineErrors(error, batch)) {
        if (errors.length < ERRORS_LISTED) errors.push(one);
        else more++;
      }
      continue;
    }
    stored = withRange(stored, [first, last]);
    // A crash before this line is covered by the batch's idempotency key, for a day.
    await progress.write(identity, stored, opened.taken);
  }
  return errors.length === 0 ? { kind: "stored", lines } : { kind: "refused", stored, errors, more };
}

/** Makes the same lines of the same file the same request. */
function requestOf(batch: SpoolBatch, identity: string, first: number): Parameters<Accept>[0] {
  const digest = hash("sha256", batch.map(({ text }) => text).join("\n"), "hex");
  return {
    publications: batch.map(({ text }, i) => ({ text, path: `[${i}]` })),
    idempotency: { scope: "spool", key: hash("sha256", `${identity} ${first} ${digest}`, "hex"), digest },
    source: "spool",
  };
}

const RETRY_AFTER_S = 5;

const postponed = ({ code, extras: { retryAfter = RETRY_AFTER_S } }: Problem): TakenIn => ({
  kind: "later",
  reason: code,
  retryAfterMs: retryAfter * 1_000,
});

/** Translates places in the batch to lines of the file. An error in the bytes of a line says more than "not JSON". */
function lineErrors({ code, detail, extras: { errors = [] } }: Problem, batch: SpoolBatch): readonly LineError[] {
  if (errors.length === 0) return [{ code, message: detail }];
  return errors.map(({ path, message }: FieldError) => {
    const [, place, field] = PLACE.exec(path) ?? [];
    const line = place === undefined ? undefined : batch[Number(place)];
    if (line === undefined) return { code, message: `${path} ${message}`.trim() };
    return { line: line.number, field: field === "" ? undefined : field, code, message: line.problem ?? message };
  });
}

interface SpoolLine {
  /** From 1. */
  readonly number: number;
  /** Empty when `problem` says what is wrong with the bytes: such text is not JSON, so its batch is refused. */
  readonly text: string;
  readonly problem?: string;
}

/** Lines that are accepted or refused together. The same file always comes in the same batches. */
type SpoolBatch = readonly SpoolLine[];

const CHUNK = 256 * 1024;
const NEWLINE = 10;

/** Streams the lines of an NDJSON file as batches: memory holds one batch and one line. Skips empty lines. */
async function* lineBatches(file: Pick<FileHandle, "read">): AsyncGenerator<SpoolBatch> {
  let lines: SpoolLine[] = [];
  let bytes = 0;
  let number = 0;
  for await (const raw of rawLines(file)) {
    if (lines.length > 0 && (lines.length >= MAX_BATCH_EVENTS || bytes + raw.length > MAX_BATCH_BYTES)) {
      yield lines;
      lines = [];
      bytes = 0;
    }
    const line = read(++number, raw);
    if (line.problem === undefined && skipSpace(line.text, 0) === line.text.length) continue;
    lines.push(line);
    bytes += raw.length;
  }
  if (lines.length > 0) yield lines;
}

function read(number: number, raw: Buffer): SpoolLine {
  if (raw.length > MAX_EVENT_BYTES) {
    return { number, text: "", problem: `is larger than ${MAX_EVENT_BYTES} bytes` };
  }
  try {
    return { number, text: utf8.decode(raw) };
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
