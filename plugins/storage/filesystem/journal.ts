/**
 * The journal: commits that the files may not contain yet. One line per commit, so that a commit is there as a whole or
 * not at all. Commits that share one fsync are a group. A new group begins only when the one before it is synced, so
 * that only the last group of a segment can be torn. Replayed at start, dropped once the files contain it.
 */
import { type FileHandle, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { StorageError } from "../../../core/model/errors.ts";
import { codeOf, createFile, fault, rewriteFile, syncFolder } from "./disk.ts";
import { groupPieces, headerLine, type JournalLine, readSegment, type Write } from "./journal-lines.ts";

const SEGMENT = /^(\d{8})\.ndjson$/;
const segmentName = (number: number): string => `${String(number).padStart(8, "0")}.ndjson`;

interface ReplayedJournal {
  /** Every readable line, oldest first. */
  readonly lines: readonly JournalLine[];
  /** Segments with text that no complete commit wrote. `middle`: readable lines follow, so something was lost. */
  readonly damaged: readonly { readonly path: string; readonly text: Uint8Array; readonly middle: boolean }[];
  /** Names in the folder that do not belong to the journal. */
  readonly foreign: readonly string[];
}

export class Journal {
  readonly #dir: string;
  /** The newest number that was given to a segment, also to one that could not be begun. */
  #number = 0;
  /** The open segment, and its number. */
  #handle: FileHandle | undefined;
  #open = 0;
  /** Bytes of the open segment that are acknowledged. */
  #good = 0;
  #empty = false;
  /** The segment may hold more than was acknowledged and could not be cut: the next one must state where it ends. */
  #suspect: { readonly segment: number; readonly bytes: number } | undefined;
  /** Unfinished segments, oldest first. */
  #segments: number[] = [];

  constructor(dir: string) {
    this.#dir = dir;
  }

  get bytes(): number {
    return this.#good;
  }

  /**
   * Reads what earlier runs left behind. Their segments stay until `drop`. They are rewritten unchanged, and synced,
   * before anything is made of them: a line that was never synced may be in the page cache alone, and a power cut must
   * not take it away while the files hold half of it.
   * @throws Error when they cannot be read or written
   */
  async replay(): Promise<ReplayedJournal> {
    const foreign: string[] = [];
    const entries = await readdir(this.#dir, { withFileTypes: true });
    for (const entry of entries) {
      const number = entry.isFile() ? SEGMENT.exec(entry.name)?.[1] : undefined;
      if (number === undefined) foreign.push(entry.name);
      else this.#segments.push(Number(number));
    }
    this.#segments.sort((a, b) => a - b);
    this.#number = this.#segments.at(-1) ?? 0;
    const read = [];
    const cuts = new Map<number, number>();
    for (const number of this.#segments) {
      const path = join(this.#dir, segmentName(number));
      const bytes = await readFile(path);
      const segment = readSegment(bytes, number === this.#number);
      if (segment.lines.length > 0) await rewriteFile(path, bytes);
      if (segment.cut !== undefined) cuts.set(segment.cut.segment, segment.cut.bytes);
      read.push({ number, path, segment });
    }
    if (read.length > 0) await syncFolder(this.#dir);
    const lines: JournalLine[] = [];
    const damaged = [];
    for (const { number, path, segment } of read) {
      const end = cuts.get(number) ?? Infinity;
      lines.push(...segment.lines.filter((line) => line.end <= end));
      for (const { start, text, middle } of segment.damaged) {
        if (start >= end) continue;
        damaged.push({ path, text, middle });
        // The next segment voids it; else it would seem acknowledged, because a segment follows it.
        if (number === this.#number && !middle) this.#suspect = { segment: number, bytes: start };
      }
    }
    return { lines, damaged, foreign };
  }

  /**
   * Appends commits, durable when it resolves.
   * @throws StorageError `full` or `unavailable`: nothing of it is left; `uncertain`: it may come back at the next
   * start
   */
  async append(commits: readonly (readonly Write[])[]): Promise<void> {
    if (this.#handle === undefined) await this.rotate();
    const handle = this.#handle as FileHandle;
    try {
      let end = this.#good;
      for (const piece of groupPieces(commits)) {
        await writeAll(handle, piece, end);
        end += piece.length;
      }
      await handle.datasync();
      this.#good = end;
      this.#empty = false;
    } catch (error) {
      throw await this.#undo(handle, error);
    }
  }

  /** Notes a planned split of the files (see `leaves.ts`), durable when it resolves. */
  async note(from: string): Promise<void> {
    await this.append([[{ split: from }]]);
  }

  /** Begins a new segment and returns the numbers of those before it, which can be dropped once the files contain them. */
  async rotate(): Promise<readonly number[]> {
    // An empty segment is as good as a new one.
    if (this.#handle !== undefined && this.#empty) return this.#segments.filter((number) => number !== this.#open);
    const number = ++this.#number;
    const path = join(this.#dir, segmentName(number));
    let handle: FileHandle | undefined;
    try {
      handle = await createFile(path);
      const header = Buffer.from(headerLine(number, this.#suspect));
      await writeAll(handle, header, 0);
      await handle.sync();
      await syncFolder(this.#dir);
      const before = this.#segments;
      await this.#handle?.close();
      this.#segments = [...before, number];
      this.#handle = handle;
      this.#open = number;
      this.#good = header.length;
      this.#empty = true;
      this.#suspect = undefined;
      return before;
    } catch (error) {
      await handle?.close().catch(() => {});
      await unlink(path).catch(() => {});
      throw fault(error, "beginning a journal segment");
    }
  }

  /**
   * Removes segments that the files contain, oldest first, each durably before the next: a power cut that restored an
   * old one without those that followed would put old values over newer ones. May be repeated after a failure.
   */
  async drop(numbers: readonly number[]): Promise<void> {
    for (const number of numbers.toSorted((a, b) => a - b)) {
      try {
        await unlink(join(this.#dir, segmentName(number)));
      } catch (error) {
        if (codeOf(error) !== "ENOENT") throw error;
      }
      await syncFolder(this.#dir);
      this.#segments = this.#segments.filter((other) => other !== number);
    }
  }

  /**
   * Whether a commit that failed may come back at the next start. The next segment ends that: its header says where the
   * one before it ended.
   */
  get uncertain(): boolean {
    return this.#suspect !== undefined;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
  }

  /**
   * Undoes a failed write. It may have reached the disk in part, and a failed fsync completely (the page cache forgets
   * that it failed). The segment is cut; if even that fails, it is closed for ever: the next one's header states where
   * it ended.
   */
  async #undo(handle: FileHandle, cause: unknown): Promise<StorageError> {
    const good = this.#good;
    let cut = false;
    try {
      await handle.truncate(good);
      await handle.sync();
      cut = true;
    } catch {
      this.#suspect = { segment: this.#open, bytes: good };
    }
    this.#handle = undefined;
    await handle.close().catch(() => {});
    return cut
      ? fault(cause, "writing the journal")
      : new StorageError("uncertain", "the journal could not be written, and the partial write could not be undone", {
          cause,
        });
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, position + at);
    at += bytesWritten;
  }
}
