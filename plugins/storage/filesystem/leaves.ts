/**
 * Which folder holds which keys. A folder ("leaf") holds the keys from its name on, up to where the next one begins, so
 * that the key order can be read off the folders, none grows huge, and memory holds names of folders, not of files.
 */
import { mkdir, readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { decodeRecord } from "./record.ts";
import { PRIVATE_FOLDER, codeOf, readRegular } from "./disk.ts";
import { fileKey, folderGroup, groupFolder, groupOf, leafFolder, leafFrom } from "./names.ts";
import { lowerBound, prefixEnd } from "./sorted.ts";

export interface Leaf {
  readonly group: string;
  readonly from: string;
  readonly path: string;
  /** Keys of its files, in order; `undefined` while nobody has asked. */
  keys: string[] | undefined;
  loading: Promise<string[]> | undefined;
  /** Counts changes made while it was not loaded. */
  epoch: number;
}

/** Called with what does not belong where it was found; moves it away and tells the operator. */
export type Foreign = (path: string, why: string) => void;

/** Loaded folders kept in memory: about 100 bytes a key. */
const KEPT = 200;

export class Leaves {
  readonly #root: string;
  readonly #foreign: Foreign;
  #list: Leaf[] = [];
  readonly #loaded = new Set<Leaf>();

  constructor(root: string, foreign: Foreign) {
    this.#root = root;
    this.#foreign = foreign;
  }

  get count(): number {
    return this.#list.length;
  }

  get all(): readonly Leaf[] {
    return this.#list;
  }

  /** Learns the folders from the disk. */
  async open(): Promise<void> {
    for (const entry of await readdir(this.#root, { withFileTypes: true })) {
      const path = join(this.#root, entry.name);
      const group = entry.isDirectory() ? folderGroup(entry.name) : undefined;
      if (group === undefined || groupFolder(group) !== entry.name) this.#foreign(path, "not a folder of this storage");
      else await this.#openGroup(group, path);
    }
    this.#list.sort((a, b) => (a.from < b.from ? -1 : 1));
  }

  async #openGroup(group: string, path: string): Promise<void> {
    let first = false;
    for (const entry of await readdir(path, { withFileTypes: true })) {
      const from = entry.isDirectory() ? leafFrom(entry.name, group) : undefined;
      if (from === undefined) this.#foreign(join(path, entry.name), "not a folder of this storage");
      else this.#list.push(leaf(group, from, join(path, entry.name)));
      first ||= from === group;
    }
    // A crash may have come between the folder and its first leaf.
    if (!first) this.#list.push((await this.prepare(group, group)) as Leaf);
  }

  /** The folder that the key belongs into; `undefined` while its group has none. */
  find(key: string): Leaf | undefined {
    const found = this.#list[this.#indexAt(key)];
    return found !== undefined && found.group === groupOf(key) ? found : undefined;
  }

  /** Makes a folder for keys from `from` on, which nobody looks into before `insert`; `undefined` where its name would be too long. */
  async prepare(from: string, group: string): Promise<Leaf | undefined> {
    const name = leafFolder(from, group);
    if (name === undefined) return undefined;
    const path = join(this.#root, groupFolder(group), name);
    await mkdir(path, { recursive: true, mode: PRIVATE_FOLDER });
    return leaf(group, from, path);
  }

  /** From now on the keys from its beginning on belong to `made`. */
  insert(made: Leaf): void {
    const index = this.#indexAt(made.from);
    const before = this.#list[index];
    if (before !== undefined) before.epoch++;
    this.#list.splice(index + 1, 0, made);
    this.#keep(made, []);
  }

  /** Gives an empty folder back, unless it is the first of its group. */
  async remove(empty: Leaf): Promise<void> {
    if (empty.from === empty.group) return;
    try {
      await rmdir(empty.path);
    } catch (error) {
      if (codeOf(error) === "ENOTEMPTY") return;
      throw error;
    }
    this.forget(empty);
  }

  /** Its keys belong to the folder before it again. */
  forget(gone: Leaf): void {
    this.#list = this.#list.filter((other) => other !== gone);
    this.#loaded.delete(gone);
    const before = this.downwards(gone.from);
    if (before !== undefined) before.epoch++;
  }

  /** The folder that holds keys at or behind `key`, and where it ends; `undefined` behind the last. */
  upwards(key: string): { readonly leaf: Leaf; readonly end: string | undefined } | undefined {
    for (let index = Math.max(0, this.#indexAt(key)); index < this.#list.length; index++) {
      const found = this.#list[index] as Leaf;
      const end = this.#endOf(index);
      if (end === undefined || end > key) return { leaf: found, end };
    }
    return undefined;
  }

  /** The last folder that holds keys before `key` (`undefined`: from the very end). */
  downwards(key: string | undefined): Leaf | undefined {
    if (key === undefined) return this.#list.at(-1);
    const index = this.#indexAt(key);
    return this.#list[index]?.from === key ? this.#list[index - 1] : this.#list[index];
  }

  /** Keys of the folder's files, in order. What does not belong there is moved away. */
  async keys(of: Leaf): Promise<readonly string[]> {
    if (of.keys !== undefined) {
      this.#loaded.delete(of);
      this.#loaded.add(of);
      return of.keys;
    }
    of.loading ??= this.#load(of).finally(() => {
      of.loading = undefined;
    });
    return of.loading;
  }

  async #load(of: Leaf): Promise<string[]> {
    for (;;) {
      const epoch = of.epoch;
      const found = await list(of);
      if (of.epoch !== epoch) continue;
      const index = this.#list.indexOf(of);
      const end = index < 0 ? undefined : this.#endOf(index);
      const keys: string[] = [];
      for (const { path, key } of found) {
        if (key === undefined) this.#foreign(path, "not a file of this storage");
        else if (key < of.from || (end !== undefined && key >= end))
          this.#foreign(path, "a record in the wrong folder");
        else keys.push(key);
      }
      this.#keep(
        of,
        keys.sort((a, b) => (a < b ? -1 : 1)),
      );
      return keys;
    }
  }

  #keep(of: Leaf, keys: string[]): void {
    of.keys = keys;
    this.#loaded.add(of);
    if (this.#loaded.size <= KEPT) return;
    const oldest = this.#loaded.values().next().value as Leaf;
    this.#loaded.delete(oldest);
    oldest.keys = undefined;
    oldest.epoch++;
  }

  added(to: Leaf, key: string): void {
    to.epoch++;
    if (to.keys === undefined) return;
    const at = lowerBound(to.keys, key);
    if (to.keys[at] !== key) to.keys.splice(at, 0, key);
  }

  removed(from: Leaf, key: string): void {
    from.epoch++;
    if (from.keys === undefined) return;
    const at = lowerBound(from.keys, key);
    if (from.keys[at] === key) from.keys.splice(at, 1);
  }

  /** The last folder that begins at or before `key`; -1 when there is none. */
  #indexAt(key: string): number {
    let low = 0;
    let high = this.#list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#list[middle] as Leaf).from <= key) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #endOf(index: number): string | undefined {
    const of = this.#list[index] as Leaf;
    const next = this.#list[index + 1];
    const groupEnd = of.group.endsWith(":") ? prefixEnd(of.group) : `${of.group}\0`;
    return next !== undefined && (groupEnd === undefined || next.from < groupEnd) ? next.from : groupEnd;
  }
}

const leaf = (group: string, from: string, path: string): Leaf => ({
  group,
  from,
  path,
  keys: undefined,
  loading: undefined,
  epoch: 0,
});

/** What lies in the folder; the key is `undefined` where it is no record of ours. */
export async function list(of: Leaf): Promise<{ readonly path: string; readonly key: string | undefined }[]> {
  const found = [];
  for (const entry of await readdir(of.path, { withFileTypes: true })) {
    const path = join(of.path, entry.name);
    const key = entry.isFile() ? fileKey(entry.name, of.group) : undefined;
    found.push({ path, key: key === "hashed" ? await keyInside(path) : key });
  }
  return found;
}

/** The key of a file whose name was too long to tell it; `undefined` for a damaged one. */
async function keyInside(path: string): Promise<string | undefined> {
  try {
    const text = await readRegular(path);
    return text === undefined ? undefined : decodeRecord(text).key;
  } catch {
    return undefined;
  }
}

/** The shortest text behind `before` and not behind `key`: a short name for the folder that begins with `key`. */
export function separator(before: string, key: string): string {
  let common = 0;
  while (common < before.length && before[common] === key[common]) common++;
  return key.slice(0, common + 1);
}
