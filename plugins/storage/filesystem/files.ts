/** Keeps one file per record: writes them from the journal's backlog, and reads them one by one or in key order. */
import { rename, unlink } from "node:fs/promises";
import { renameSync, rmdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { StorageError } from "../../../core/model/errors.ts";
import { pool } from "../embedded/parallel.ts";
import { codeOf, fault, replaceFile, syncFolder } from "./disk.ts";
import { type Leaf, list, separator } from "./leaf.ts";
import { type Foreign, Leaves } from "./leaves.ts";
import { fileName, groupOf } from "./file-names.ts";
import { encodeRecord } from "./record.ts";
import { readNow, readRecordFile, valueOf } from "./record-file.ts";
import { lowerBound, prefixEnd } from "../embedded/sorted-keys.ts";
import type { OverlayValue } from "./overlay.ts";

/** Files written at once: the thread pool has four threads, and a disk works better with a few requests to sort. */
const AT_ONCE = 16;

interface FilesOptions {
  readonly records: string;
  readonly temporary: string;
  /** Moves foreign files away and reports them. */
  readonly foreign: Foreign;
  /** Makes durable that the folder of `from` is about to be split there. */
  readonly noteSplit: (from: string) => Promise<void>;
  /** True while the key is about to be written: its file is not judged then. */
  readonly isPending: (key: string) => boolean;
  /** A folder with more files is split into halves (or, where keys come in order, stays full, and a new one begins). */
  readonly perFolder: number;
}

export class Files {
  readonly #options: FilesOptions;
  readonly leaves: Leaves;
  #temporary = 0;
  #broken = false;

  constructor(options: FilesOptions) {
    this.#options = options;
    this.leaves = new Leaves(options.records, options.foreign, options.isPending);
  }

  pathOf(leaf: Leaf, key: string): string {
    return join(leaf.path, fileName(key, leaf.group));
  }

  /** @throws StorageError `broken` when the file is damaged; it is in quarantine then */
  async read(key: string): Promise<string | undefined> {
    for (;;) {
      if (this.#broken) throw new StorageError("unavailable", BROKEN);
      const leaf = this.leaves.find(key);
      if (leaf === undefined) return undefined;
      if (leaf.keys !== undefined && leaf.keys[lowerBound(leaf.keys, key)] !== key) return undefined;
      const path = this.pathOf(leaf, key);
      const text = await readRecordFile(path);
      if (text === undefined) {
        // It may have been moved during the read.
        if (this.leaves.find(key) !== leaf) continue;
        return undefined;
      }
      const value = valueOf(key, text);
      if (value !== undefined) return value;
      if (this.#options.isPending(key)) return undefined;
      if (this.#condemn(leaf, key, path))
        throw new StorageError("broken", `the record ${key} cannot be read; its file was moved to quarantine`);
    }
  }

  /** Reads again and moves the file away in one step, so that no file just written is taken for the damaged one. */
  #condemn(leaf: Leaf, key: string, path: string): boolean {
    if (this.#options.isPending(key) || this.leaves.find(key) !== leaf) return false;
    const text = readNow(path);
    if (text === undefined || valueOf(key, text) !== undefined) return false;
    this.#options.foreign(path, "a damaged record");
    this.leaves.removed(leaf, key);
    return true;
  }

  /** Yields keys with `from` ≤ key < `to`, in the direction of reading. */
  async *keys(from: string, to: string | undefined, reverse: boolean): AsyncGenerator<string> {
    if (reverse) yield* this.#downwards(from, to);
    else yield* this.#upwards(from, to);
  }

  /** Returns how many files there are. Reads folders, not files. */
  async count(prefix: string): Promise<number> {
    let count = 0;
    for await (const _ of this.#upwards(prefix, prefixEnd(prefix))) count++;
    return count;
  }

  async *#upwards(from: string, to: string | undefined): AsyncGenerator<string> {
    for (let at: string | undefined = from; at !== undefined && (to === undefined || at < to);) {
      const found = this.leaves.upwards(at);
      if (found === undefined) return;
      const keys = await this.leaves.keys(found.leaf);
      // A simultaneous split may have moved some of the listed files; a moved file is read from its new place.
      const slice = keys.slice(lowerBound(keys, at), to === undefined ? undefined : lowerBound(keys, to));
      yield* slice;
      at = found.end;
    }
  }

  async *#downwards(from: string, to: string | undefined): AsyncGenerator<string> {
    for (let at = to; ;) {
      const leaf = this.leaves.downwards(at);
      if (leaf === undefined) return;
      const keys = await this.leaves.keys(leaf);
      const slice = keys.slice(lowerBound(keys, from), at === undefined ? undefined : lowerBound(keys, at));
      yield* slice.reverse();
      if (leaf.from <= from) return;
      at = leaf.from;
    }
  }

  /** Brings the files up to date and syncs them. Repeating it after a failure or a crash is safe. @throws StorageError */
  async apply(changes: ReadonlyMap<string, OverlayValue>): Promise<void> {
    try {
      const touched = new Set<string>();
      const leaves = await this.#write(changes, touched);
      await pool([...touched], AT_ONCE, syncFolder);
      for (const leaf of leaves) {
        const keys = await this.leaves.keys(leaf);
        if (keys.length === 0) await this.leaves.remove(leaf);
        else if (keys.length > this.#options.perFolder) await this.#split(leaf);
      }
    } catch (error) {
      throw fault(error, "writing records");
    }
  }

  async #write(changes: ReadonlyMap<string, OverlayValue>, touched: Set<string>): Promise<Set<Leaf>> {
    const used = new Set<Leaf>();
    const jobs: { readonly leaf: Leaf; readonly key: string; readonly value: OverlayValue }[] = [];
    const sorted = [...changes.keys()].sort((a, b) => (a < b ? -1 : 1));
    let planned = { leaf: undefined as Leaf | undefined, last: "", count: 0 };
    for (const key of sorted) {
      const value = changes.get(key) as OverlayValue;
      let leaf = this.leaves.find(key);
      if (leaf === undefined && value === null) continue;
      leaf ??= await this.#make(groupOf(key), groupOf(key), touched);
      if (leaf === undefined) throw new StorageError("broken", "the first folder of a group could not be named");
      const keys = await this.leaves.keys(leaf);
      if (planned.leaf !== leaf) planned = { leaf, last: keys.at(-1) ?? "", count: keys.length };
      if (value !== null && key > planned.last) {
        // Keys that come in order fill a folder and begin the next: nothing is moved.
        if (planned.count >= this.#options.perFolder) {
          const next = await this.#make(separator(planned.last, key), leaf.group, touched);
          if (next !== undefined) planned = { leaf: (leaf = next), last: "", count: 0 };
        }
        planned.last = key;
        planned.count++;
      }
      used.add(leaf);
      jobs.push({ leaf, key, value });
    }
    await pool(jobs, AT_ONCE, async ({ leaf, key, value }) => {
      const path = this.pathOf(leaf, key);
      touched.add(leaf.path);
      if (value === null) {
        await unlink(path).catch(unlessMissing);
        this.leaves.removed(leaf, key);
      } else {
        await replaceFile(join(this.#options.temporary, String(this.#temporary++)), path, encodeRecord(key, value));
        this.leaves.added(leaf, key);
      }
    });
    return used;
  }

  async #make(from: string, group: string, touched: Set<string>): Promise<Leaf | undefined> {
    const made = await this.leaves.prepare(from, group);
    if (made === undefined) return undefined;
    this.leaves.insert(made);
    touched.add(dirname(made.path)).add(this.#options.records);
    return made;
  }

  /** Moves the upper half of a folder to a new one, until none holds too many. */
  async #split(leaf: Leaf): Promise<void> {
    for (;;) {
      const keys = await this.leaves.keys(leaf);
      if (keys.length <= this.#options.perFolder) return;
      const middle = keys.length >> 1;
      const from = separator(keys[middle - 1] as string, keys[middle] as string);
      await this.#options.noteSplit(from);
      const next = await this.leaves.prepare(from, leaf.group);
      if (next === undefined) return;
      await syncFolder(dirname(next.path));
      this.#move(leaf, next, keys.slice(middle));
      await syncFolder(next.path);
      await syncFolder(leaf.path);
      await this.#split(next);
    }
  }

  /** In one step, so that no reader sees half of it. `resplit` finishes what a crash interrupts; an error is undone. */
  #move(leaf: Leaf, next: Leaf, keys: readonly string[]): void {
    const moved: string[] = [];
    try {
      for (const key of keys) {
        renameSync(this.pathOf(leaf, key), this.pathOf(next, key));
        moved.push(key);
      }
    } catch (error) {
      this.#moveBack(leaf, next, moved);
      throw error;
    }
    this.leaves.insert(next);
    for (const key of keys) {
      this.leaves.removed(leaf, key);
      this.leaves.added(next, key);
    }
  }

  #moveBack(leaf: Leaf, next: Leaf, moved: readonly string[]): void {
    try {
      for (const key of moved) renameSync(this.pathOf(next, key), this.pathOf(leaf, key));
      rmdirSync(next.path);
    } catch (error) {
      // Stuck half-moved: only a restart, which replays the journal, can tell what is where.
      this.#broken = true;
      throw new StorageError("unavailable", BROKEN, { cause: error });
    }
  }

  /** At start, before any read: finishes a split that a crash interrupted. Does nothing when nothing is left. */
  async resplit(from: string): Promise<void> {
    const next = this.leaves.find(from);
    if (next === undefined || next.from !== from || from === next.group) return;
    const leaf = this.leaves.downwards(from);
    if (leaf === undefined || leaf.group !== next.group) return;
    for (const { path, key } of await list(leaf)) {
      if (key !== undefined && this.leaves.find(key) === next) await rename(path, this.pathOf(next, key));
    }
    await syncFolder(next.path);
    await syncFolder(leaf.path);
  }
}

const BROKEN = "a folder split failed half-way: restart the relay, which finishes it";

const unlessMissing = (error: unknown): void => {
  if (codeOf(error) !== "ENOENT") throw error;
};
