/**
 * Maps keys to folders. A folder ("leaf") holds the keys from its name on, up to the beginning of the next, so that the
 * key order follows from the folders, none grows huge, and memory holds names of folders, not of files.
 */
import { mkdir, readdir, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PRIVATE_FOLDER, codeOf, syncFolder } from "./disk.ts";
import { isEmptyLeaf, type Leaf, list, newLeaf } from "./leaf.ts";
import { fileName, folderGroup, groupFolder, groupOf, leafFolder, leafFrom } from "./file-names.ts";
import { bringHome } from "./record-file.ts";
import { lowerBound, prefixEnd } from "../embedded/sorted-keys.ts";

/** Called with something found in the wrong place; moves it away for good and reports it to the operator. */
export type Foreign = (path: string, why: string) => void;

/** Loaded folders kept in memory: about 100 bytes per key. */
const KEPT = 200;

export class Leaves {
  readonly #root: string;
  readonly #foreign: Foreign;
  readonly #isPending: (key: string) => boolean;
  #list: Leaf[] = [];
  readonly #loaded = new Set<Leaf>();

  /** @param isPending whether the key is about to be written: the content of its file no longer counts */
  constructor(root: string, foreign: Foreign, isPending: (key: string) => boolean) {
    this.#root = root;
    this.#foreign = foreign;
    this.#isPending = isPending;
  }

  get count(): number {
    return this.#list.length;
  }

  /**
   * Reads the folders from the disk, and syncs their parents: an earlier run may have died before it did, and later
   * writes to the folders do not sync these.
   */
  async open(): Promise<void> {
    for (const entry of await readdir(this.#root, { withFileTypes: true })) {
      const path = join(this.#root, entry.name);
      const group = entry.isDirectory() ? folderGroup(entry.name) : undefined;
      if (group === undefined || groupFolder(group) !== entry.name) this.#foreign(path, "not a folder of this storage");
      else await this.#openGroup(group, path);
    }
    await syncFolder(this.#root);
    this.#list.sort((a, b) => (a.from < b.from ? -1 : 1));
  }

  async #openGroup(group: string, path: string): Promise<void> {
    let first = false;
    for (const entry of await readdir(path, { withFileTypes: true })) {
      const from = entry.isDirectory() ? leafFrom(entry.name, group) : undefined;
      const inner = join(path, entry.name);
      if (from === undefined) this.#foreign(inner, "not a folder of this storage");
      // Removed before, and brought back by a power cut: its keys belong to the folder before it.
      else if (from !== group && isEmptyLeaf(inner)) await rmdir(inner);
      else this.#list.push(newLeaf(group, from, inner));
      first ||= from === group;
    }
    // A crash may have come between the folder and its first leaf.
    if (!first) this.#list.push((await this.prepare(group, group)) as Leaf);
    await syncFolder(path);
  }

  /** Returns the folder that the key belongs to; `undefined` while its group has none. */
  find(key: string): Leaf | undefined {
    const found = this.#list[this.#indexAt(key)];
    return found !== undefined && found.group === groupOf(key) ? found : undefined;
  }

  /** Makes a folder for keys from `from` on, unused until `insert`; `undefined` where its name would be too long. */
  async prepare(from: string, group: string): Promise<Leaf | undefined> {
    const name = leafFolder(from, group);
    if (name === undefined) return undefined;
    const path = join(this.#root, groupFolder(group), name);
    await mkdir(path, { recursive: true, mode: PRIVATE_FOLDER });
    return newLeaf(group, from, path);
  }

  /** From now on the keys from its beginning on belong to `made`. */
  insert(made: Leaf): void {
    const index = this.#indexAt(made.from);
    const before = this.#list[index];
    if (before !== undefined) before.epoch++;
    this.#list.splice(index + 1, 0, made);
    this.#keep(made, []);
  }

  /** Removes an empty folder for good, unless it is the first of its group. Its keys then belong to the one before it. */
  async remove(empty: Leaf): Promise<void> {
    if (empty.from === empty.group) return;
    this.forget(empty);
    try {
      await rmdir(empty.path);
    } catch (error) {
      this.insert(empty);
      if (codeOf(error) === "ENOTEMPTY") return;
      throw error;
    }
    await syncFolder(dirname(empty.path));
  }

  /** Gives its keys back to the folder before it. */
  forget(gone: Leaf): void {
    this.#list = this.#list.filter((other) => other !== gone);
    this.#loaded.delete(gone);
    const before = this.downwards(gone.from);
    if (before !== undefined) before.epoch++;
  }

  /** Returns the folder that holds keys at or after `key`, and where it ends; `undefined` after the last. */
  upwards(key: string): { readonly leaf: Leaf; readonly end: string | undefined } | undefined {
    for (let index = Math.max(0, this.#indexAt(key)); index < this.#list.length; index++) {
      const found = this.#list[index] as Leaf;
      const end = this.#endOf(index);
      if (end === undefined || end > key) return { leaf: found, end };
    }
    return undefined;
  }

  /** Returns the last folder that holds keys before `key` (`undefined`: from the very end). */
  downwards(key: string | undefined): Leaf | undefined {
    if (key === undefined) return this.#list.at(-1);
    const index = this.#indexAt(key);
    return this.#list[index]?.from === key ? this.#list[index - 1] : this.#list[index];
  }

  /** Returns the keys of the folder's files, in order. Moves foreign files away. */
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
        else if (key < of.from || (end !== undefined && key >= end)) this.#misplaced(path, key);
        else keys.push(key);
      }
      this.#keep(
        of,
        keys.sort((a, b) => (a < b ? -1 : 1)),
      );
      return keys;
    }
  }

  /** Moves a complete record to its own place, unless a newer one is there or on its way; anything else goes to quarantine. */
  #misplaced(path: string, key: string): void {
    const home = this.find(key);
    if (home === undefined || this.#isPending(key) || !bringHome(path, key, join(home.path, fileName(key, home.group))))
      return this.#foreign(path, "a record in the wrong folder");
    this.added(home, key);
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

  /** Returns the last folder that begins at or before `key`; -1 when there is none. */
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
