/** The states that one thing on the disk (a sector, a file's size, a name in a folder) may be found in after a power cut. */

interface Version<T> {
  readonly value: T;
  /** Number of the step that made it. */
  readonly seq: number;
  /** A sync that failed covered it: later syncs of the file do not write it again, since its page counts as clean. */
  lost: boolean;
  /** The other end of a rename: this version is on the disk only together with that one. */
  readonly needs?: { readonly history: History<unknown>; readonly seq: number };
}

/** Oldest first. The first is on the disk for certain; the last is what the running process sees. */
export class History<T> {
  readonly versions: Version<T>[];

  constructor(value: T) {
    this.versions = [{ value, seq: 0, lost: false }];
  }

  get now(): T {
    return (this.versions.at(-1) as Version<T>).value;
  }

  get settled(): boolean {
    return this.versions.length === 1;
  }

  /** True when the newest state was part of a failed sync. */
  get lost(): boolean {
    return (this.versions.at(-1) as Version<T>).lost;
  }

  push(value: T, seq: number, needs?: Version<T>["needs"]): void {
    this.versions.push({ value, seq, lost: false, ...(needs === undefined ? {} : { needs }) });
  }

  /** A sync succeeded that began after step `mark`. */
  sync(mark: number): void {
    const index = this.versions.findLastIndex(({ seq, lost }) => seq <= mark && !lost);
    for (const { needs } of this.versions.slice(1, index + 1)) needs?.history.sync(needs.seq);
    if (index > 0) this.versions.splice(0, index);
  }

  /** A sync failed that began after step `mark`: what it covered may be on the disk or not, for good. */
  fail(mark: number): void {
    for (const version of this.versions.slice(1)) if (version.seq <= mark) version.lost = true;
  }

  /** Index of the newest version up to this step. */
  upTo(seq: number): number {
    return this.versions.findLastIndex((version) => version.seq <= seq);
  }
}
