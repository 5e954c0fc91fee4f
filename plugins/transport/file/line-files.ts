/** The files of one folder that lines are added to. Few are open at once, however many paths subscribers name. */
import { LineFile, type LineFileOptions } from "./line-file.ts";

/** Most files without waiting lines that stay open. */
const IDLE = 64;

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
