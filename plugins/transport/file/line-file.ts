/** Files that lines are added to. Lines that come while the disk is busy are written and synced together. */
import { mkdir, open, readdir, rename, unlink, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isoTime } from "../../../core/lib/time.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { syncFolderAsync } from "../../../core/ports/folder.ts";
import { Grouped } from "../buses/grouped.ts";
import { mendTail, SUFFIX } from "./tails.ts";

interface LineFileOptions {
  readonly dir: string;
  readonly maxBytes: number;
  readonly keep: number | undefined;
  readonly clock: Clock;
}

/** Most files without waiting lines that stay open. */
const IDLE = 64;
/** Bytes that are written and synced together, and never more than a file may have; one line alone may be larger. */
const GROUP_BYTES = 4_194_304;
const DAY_MS = 86_400_000;

export class LineFile {
  readonly #file: string;
  readonly #options: LineFileOptions;
  readonly #lines: Grouped<Buffer, number>;
  #handle: FileHandle | undefined;
  #size = 0;
  /** The day, counted from 1970, that the file's lines are of. */
  #day = 0;

  constructor(path: string, options: LineFileOptions) {
    this.#file = join(options.dir, ...path.split("/")) + SUFFIX;
    this.#options = options;
    this.#lines = new Grouped({
      mostBytes: Math.min(GROUP_BYTES, options.maxBytes),
      bytesOf: ({ length }) => length,
      work: (lines) => this.#write(lines),
    });
  }

  get busy(): boolean {
    return this.#lines.running !== undefined;
  }

  /** Resolves to the byte at which the line begins once it is on the disk. @throws the error of the disk */
  append(line: Buffer, dropped: () => boolean): Promise<number> {
    return this.#lines.add(line, dropped);
  }

  /** Writes what waits, then closes the file. */
  async close(): Promise<void> {
    await this.#lines.running;
    await this.#letGo();
  }

  async #write(lines: readonly Buffer[]): Promise<readonly number[]> {
    const bytes = Buffer.concat(lines);
    try {
      const handle = await this.#opened(bytes.length);
      await handle.appendFile(bytes);
      await handle.datasync();
    } catch (error) {
      // How much of it is on the disk is unknown. The next line opens the file again, which mends its end.
      await this.#letGo().catch(() => undefined);
      throw error;
    }
    return lines.map(({ length }) => (this.#size += length) - length);
  }

  async #opened(more: number): Promise<FileHandle> {
    let handle = this.#handle ?? (await this.#open());
    const today = Math.floor(this.#options.clock.now() / DAY_MS);
    if (this.#size > 0 && (this.#day !== today || this.#size + more > this.#options.maxBytes)) {
      await this.#rotate();
      handle = await this.#open();
    }
    if (this.#size === 0) this.#day = today;
    return handle;
  }

  async #open(): Promise<FileHandle> {
    const folder = dirname(this.#file);
    await mkdir(folder, { recursive: true, mode: 0o750 });
    // Read as well, to find the end of the last line.
    const handle = await open(this.#file, "a+", 0o640);
    try {
      const { mtimeMs } = await handle.stat();
      this.#size = await mendTail(handle);
      this.#day = Math.floor(mtimeMs / DAY_MS);
      if (this.#size === 0) await this.#syncFolders(folder);
    } catch (error) {
      await handle.close();
      throw error;
    }
    return (this.#handle = handle);
  }

  /** A new file, or one in a new folder, lasts only when the folders above it are synced. */
  async #syncFolders(folder: string): Promise<void> {
    for (let at = folder; at.length >= this.#options.dir.length; at = dirname(at)) {
      await syncFolderAsync(at);
    }
  }

  /** Gives the file its time for a name, and removes the oldest of those that were closed before. */
  async #rotate(): Promise<void> {
    const { clock, keep } = this.#options;
    await this.#letGo();
    const folder = dirname(this.#file);
    const start = `${basename(this.#file)}.`;
    const closed = (await readdir(folder))
      .filter((name) => name.startsWith(start) && STAMP.test(name.slice(start.length)))
      .map((name) => name.slice(start.length))
      .sort();
    const next = stampAfter(closed.at(-1), clock.now());
    await rename(this.#file, `${this.#file}.${next}`);
    await this.#syncFolders(folder);
    if (keep === undefined) return;
    const old = [...closed, next].slice(0, -keep);
    for (const stamp of old) await unlink(`${this.#file}.${stamp}`);
  }

  async #letGo(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }
}

/** The files of one folder. Few are open at once, however many paths subscribers name. */
export class LineFiles {
  readonly #options: LineFileOptions;
  /** In the order of last use. */
  readonly #files = new Map<string, LineFile>();
  readonly #closing = new Set<Promise<void>>();

  constructor(options: LineFileOptions) {
    this.#options = options;
  }

  /**
   * Adds a line. Resolves to the byte at which it begins once it is on the disk.
   * @param dropped asked right before the line is written: true leaves it out
   * @throws the error of the disk; the line may be there all the same
   */
  append(path: string, line: Buffer, dropped: () => boolean): Promise<number> {
    const file = this.#files.get(path) ?? new LineFile(path, this.#options);
    this.#files.delete(path);
    this.#files.set(path, file);
    const added = file.append(line, dropped);
    if (this.#files.size > IDLE) this.#closeIdle();
    return added;
  }

  /** Lines that wait are still written. */
  async close(): Promise<void> {
    await Promise.all([...this.#closing, ...[...this.#files.values()].map((file) => file.close())]);
    this.#files.clear();
  }

  #closeIdle(): void {
    for (const [path, file] of this.#files) {
      if (this.#files.size <= IDLE) return;
      if (file.busy) continue;
      this.#files.delete(path);
      const closing = file
        .close()
        .catch(() => undefined)
        .finally(() => this.#closing.delete(closing));
      this.#closing.add(closing);
    }
  }
}

const STAMP = /^\d{8}T\d{9}Z(?:-\d{6})?$/;

/** The name of the time, or the next one after the last: names grow even where the clock is set back. */
function stampAfter(last: string | undefined, now: number): string {
  const stamp = isoTime(now).replaceAll(/[-:.]/g, "");
  if (last === undefined || stamp > last) return stamp;
  const [time = "", count = "0"] = last.split("-");
  return `${time}-${String(Number(count) + 1).padStart(6, "0")}`;
}
