/**
 * The journal: commits that the items may not contain yet. One line per commit, so that a commit is there as a whole or
 * not at all. Commits that share one fsync are a group. A new group begins only when the one before it is synced, so
 * that only the last group of a segment can be torn. Replayed at start, dropped once the items contain it.
 */
import { type FileHandle, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { StorageError } from "../../../core/model/errors.ts";
import { syncFolderAsync } from "../../../core/ports/folder.ts";
import type { KeyWrite } from "../embedded/group.ts";
import { rewriteFile } from "../embedded/rewrite-file.ts";
import { createFile, fault, unlessMissing, writeAll } from "./disk.ts";
import { type Cut, groupBytes, headerLine, type JournalDamage, readSegment } from "./journal-lines.ts";
import type { Quarantine } from "./quarantine.ts";
import type { Journal } from "./store.ts";

const SEGMENT = /^(\d{8})\.ndjson$/;

interface OpenSegment {
  readonly handle: FileHandle;
  readonly number: number;
}

export class FileJournal implements Journal {
  readonly #dir: string;
  readonly #quarantine: Quarantine;
  /** The newest number that was given to a segment, also to one that could not be begun. */
  #newest = 0;
  #open: OpenSegment | undefined;
  /** Bytes of the open segment that are acknowledged. */
  #good = 0;
  /** The segment may hold more than was acknowledged and could not be cut: the next one must state where it ends. */
  #suspect: Cut | undefined;
  /** Unfinished segments, oldest first. */
  #segments: number[] = [];

  constructor(dir: string, quarantine: Quarantine) {
    this.#dir = dir;
    this.#quarantine = quarantine;
  }

  get bytes(): number {
    return this.#good;
  }

  get uncertain(): boolean {
    return this.#suspect !== undefined;
  }

  #path(number: number): string {
    return join(this.#dir, `${String(number).padStart(8, "0")}.ndjson`);
  }

  async append(commits: readonly (readonly KeyWrite[])[]): Promise<void> {
    if (this.#open === undefined) await this.rotate();
    const to = this.#open as OpenSegment;
    const bytes = groupBytes(commits);
    try {
      await writeAll(to.handle, bytes, this.#good);
      await to.handle.datasync();
    } catch (error) {
      throw await this.#undo(to, error);
    }
    this.#good += bytes.length;
  }

  /**
   * Undoes a failed write. It may have reached the disk in part, and a failed fsync completely (the page cache forgets
   * that it failed). The segment is cut; if even that fails, it is closed for ever, and the next one's header states
   * where it ended.
   */
  async #undo({ handle, number }: OpenSegment, cause: unknown): Promise<StorageError> {
    this.#open = undefined;
    try {
      await handle.truncate(this.#good);
      await handle.sync();
      return fault(cause, "writing the journal");
    } catch {
      this.#suspect = { segment: number, bytes: this.#good };
      const why = "the journal could not be written, and the partial write could not be undone";
      return new StorageError("uncertain", why, { cause });
    } finally {
      await handle.close().catch(() => {});
    }
  }

  async rotate(): Promise<() => Promise<void>> {
    const number = ++this.#newest;
    const header = Buffer.from(headerLine(number, this.#suspect));
    let handle: FileHandle | undefined;
    try {
      handle = await createFile(this.#path(number));
      await writeAll(handle, header, 0);
      await handle.sync();
      await syncFolderAsync(this.#dir);
    } catch (error) {
      await handle?.close().catch(() => {});
      await unlink(this.#path(number)).catch(() => {});
      throw fault(error, "beginning a journal segment");
    }
    const before = this.#segments;
    await this.#open?.handle.close();
    this.#segments = [...before, number];
    this.#open = { handle, number };
    this.#good = header.length;
    this.#suspect = undefined;
    return () => this.#drop(before);
  }

  /**
   * Removes segments, oldest first, each durably before the next: a power cut that restored an old one without those that
   * followed would put old values over newer ones. May be repeated after a failure.
   */
  async #drop(numbers: readonly number[]): Promise<void> {
    for (const number of numbers) {
      await unlink(this.#path(number)).catch(unlessMissing);
      await syncFolderAsync(this.#dir);
      this.#segments = this.#segments.filter((other) => other !== number);
    }
  }

  /** Yields what earlier runs left behind, oldest first; what is damaged is copied to quarantine. */
  async *replay(): AsyncGenerator<KeyWrite> {
    for (const entry of await readdir(this.#dir, { withFileTypes: true })) {
      const number = entry.isFile() ? SEGMENT.exec(entry.name)?.[1] : undefined;
      if (number === undefined) this.#quarantine.move(join(this.#dir, entry.name), "not a file of the journal");
      else this.#segments.push(Number(number));
    }
    this.#segments.sort((a, b) => a - b);
    this.#newest = this.#segments.at(-1) ?? 0;
    const read = [];
    const ends = new Map<number, number>();
    for (const number of this.#segments) {
      const bytes = await readFile(this.#path(number));
      const segment = readSegment(bytes, number === this.#newest);
      // Synced before anything is made of it: a line may be in the page cache alone, and a power cut must not take it
      // away while the items hold half of it.
      if (segment.lines.length > 0) await rewriteFile(this.#path(number));
      if (segment.cut !== undefined) ends.set(segment.cut.segment, segment.cut.bytes);
      read.push({ number, segment });
    }
    if (read.length > 0) await syncFolderAsync(this.#dir);
    for (const { number, segment } of read) {
      const end = ends.get(number) ?? Infinity;
      for (const damage of segment.damaged) if (damage.start < end) this.#report(number, damage);
      for (const line of segment.lines)
        if (line.end <= end) for (const write of line.writes) if (!("split" in write)) yield write;
    }
  }

  #report(number: number, { start, text, middle }: JournalDamage): void {
    const torn = "the torn end of the journal, never acknowledged";
    const why = middle ? "a damaged line of the journal: a commit may be lost" : torn;
    this.#quarantine.copy(this.#path(number), text, why);
    // The next segment voids it; else it would seem acknowledged, because a segment follows it.
    if (number === this.#newest && !middle) this.#suspect = { segment: number, bytes: start };
  }

  async close(): Promise<void> {
    await this.#open?.handle.close();
    this.#open = undefined;
  }
}
