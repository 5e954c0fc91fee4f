/**
 * A map with its keys in byte order, for storages that live in memory or have their index there. The keys are kept in
 * chunks, so that an insert moves little; they are ASCII, so `<` is byte order.
 */
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";

/** A chunk that grows to twice this length is split. */
const CHUNK = 256;

/** Returns the first of so many indexes that is not before, where those that are before come first. */
export function firstNot(length: number, isBefore: (index: number) => boolean): number {
  let low = 0;
  for (let high = length; low < high;) {
    const middle = (low + high) >>> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the index of the first key that is not before `key`. */
const lowerBound = (keys: readonly string[], key: string): number =>
  firstNot(keys.length, (index) => (keys[index] as string) < key);

/** Returns the first text after every key that starts with `prefix`; `undefined` when there is none (the empty prefix). */
function prefixEnd(prefix: string): string | undefined {
  return prefix === ""
    ? undefined
    : prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

class SortedKeys {
  #chunks: string[][] = [];

  /** Returns false when it was there already. */
  add(key: string): boolean {
    const index = this.#chunkOf(key);
    const chunk = this.#chunks[index];
    if (chunk === undefined) {
      this.#chunks.push([key]);
      return true;
    }
    // Keys mostly grow with time.
    const at = (chunk.at(-1) as string) < key ? chunk.length : lowerBound(chunk, key);
    if (chunk[at] === key) return false;
    chunk.splice(at, 0, key);
    if (chunk.length > CHUNK * 2)
      this.#chunks.splice(index + 1, 0, chunk.splice(at === chunk.length - 1 ? CHUNK * 2 : CHUNK));
    return true;
  }

  delete(key: string): boolean {
    const index = this.#chunkOf(key);
    const chunk = this.#chunks[index];
    if (chunk === undefined) return false;
    const at = lowerBound(chunk, key);
    if (chunk[at] !== key) return false;
    chunk.splice(at, 1);
    if (chunk.length === 0) this.#chunks.splice(index, 1);
    return true;
  }

  /** Returns how many keys there are from `from` (inclusive) to before `to`, without listing them. */
  count(from: string, to?: string): number {
    const [first, last] = [this.#chunkOf(from), to === undefined ? this.#chunks.length - 1 : this.#chunkOf(to)];
    const lengthTo = (index: number, key: string | undefined): number => {
      const chunk = this.#chunks[index] ?? [];
      return key === undefined ? chunk.length : lowerBound(chunk, key);
    };
    let all = lengthTo(last, to) - lengthTo(first, from);
    for (let index = first; index < last; index++) all += (this.#chunks[index] as string[]).length;
    return all;
  }

  /** Yields keys from `from` (inclusive) to before `to`, upwards. Do not change the set while reading. */
  *upwards(from: string, to?: string): Generator<string> {
    for (let index = this.#chunkOf(from); index < this.#chunks.length; index++) {
      const chunk = this.#chunks[index] as string[];
      for (let at = lowerBound(chunk, from); at < chunk.length; at++) {
        const key = chunk[at] as string;
        if (to !== undefined && key >= to) return;
        yield key;
      }
    }
  }

  /** Yields keys from before `to` down to `from` (inclusive). */
  *downwards(from: string, to?: string): Generator<string> {
    for (let index = to === undefined ? this.#chunks.length - 1 : this.#chunkOf(to); index >= 0; index--) {
      const chunk = this.#chunks[index];
      if (chunk === undefined) return;
      for (let at = (to === undefined ? chunk.length : lowerBound(chunk, to)) - 1; at >= 0; at--) {
        const key = chunk[at] as string;
        if (key < from) return;
        yield key;
      }
    }
  }

  /** Returns the last chunk that begins at or before `key`; 0 when all begin after it. */
  #chunkOf(key: string): number {
    const chunks = this.#chunks;
    return Math.max(0, firstNot(chunks.length, (index) => ((chunks[index] as string[])[0] as string) <= key) - 1);
  }
}

/** Returns the bounds of a range: keys of `prefix`, after `after` in the direction of reading. */
export function bounds(
  prefix: string,
  after: string | undefined,
  reverse: boolean,
): { from: string; to: string | undefined } {
  let from = prefix;
  let to = prefixEnd(prefix);
  if (after !== undefined) {
    if (reverse) to = to === undefined || after < to ? after : to;
    else if (`${after}\u0001` > from) from = `${after}\u0001`;
  }
  return { from, to };
}

export type SortedMap = ReturnType<typeof sortedMap>;

export function sortedMap() {
  const values = new Map<string, string>();
  const keys = new SortedKeys();
  return {
    get size() {
      return values.size;
    },
    get: (key: string) => values.get(key),
    set(key: string, value: string): void {
      if (!values.has(key)) keys.add(key);
      values.set(key, value);
    },
    delete(key: string): boolean {
      if (!values.delete(key)) return false;
      return keys.delete(key);
    },
    /** Reads a range, as the storage port defines it. */
    range(prefix: string, { after, limit = 100, reverse = false }: RangeOptions = {}): Entry[] {
      const found: Entry[] = [];
      if (limit < 1) return found;
      const { from, to } = bounds(prefix, after, reverse);
      for (const key of reverse ? keys.downwards(from, to) : keys.upwards(from, to)) {
        found.push({ key, value: values.get(key) as string });
        if (found.length >= limit) break;
      }
      return found;
    },
    /** Returns how many keys start with `prefix`, without listing them. */
    count: (prefix: string) => keys.count(prefix, prefixEnd(prefix)),
  };
}
