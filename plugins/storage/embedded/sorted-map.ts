/** A map with its keys in byte order, for storages that live in memory or have their index there. */
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";

/** Keys per chunk; a split makes two halves. Small enough that an insert in the middle moves little. */
const CHUNK = 512;

export interface SortedMap {
  readonly size: number;
  get(key: string): string | undefined;
  set(key: string, value: string): void;
  delete(key: string): boolean;
  /** Reads a range, as the storage port defines it. */
  range(prefix: string, options?: RangeOptions): Entry[];
  /** Returns how many keys start with `prefix`, without listing them. */
  count(prefix: string): number;
}

/** Returns the smallest text above every printable ASCII text that starts with `prefix`. */
export const above = (prefix: string): string => `${prefix}\u007f`;

export function sortedMap(): SortedMap {
  const values = new Map<string, string>();
  /** No chunk is empty except the very first; each is sorted and lies below the next one. */
  const chunks: string[][] = [[]];

  /** Returns the index of the chunk in which `key` is or would be. */
  function chunkOf(key: string): number {
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((chunks[middle]?.[0] as string) <= key) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function insert(key: string): void {
    const at = chunkOf(key);
    const chunk = chunks[at] as string[];
    const last = chunk.at(-1);
    if (last === undefined || last < key) chunk.push(key);
    else chunk.splice(lowerBound(chunk, key), 0, key);
    if (chunk.length <= CHUNK) return;
    // Keys mostly grow with time: when the last key overflows, split off only that key instead of half.
    const cut = chunk.at(-1) === key ? chunk.length - 1 : chunk.length >> 1;
    chunks.splice(at + 1, 0, chunk.splice(cut));
  }

  function remove(key: string): void {
    const at = chunkOf(key);
    const chunk = chunks[at] as string[];
    chunk.splice(lowerBound(chunk, key), 1);
    if (chunk.length === 0 && chunks.length > 1) chunks.splice(at, 1);
  }

  function range(prefix: string, { after, limit = 100, reverse = false }: RangeOptions = {}): Entry[] {
    const found: Entry[] = [];
    const end = above(prefix);
    const take = (key: string | undefined): boolean => {
      if (key === undefined || found.length >= limit || !key.startsWith(prefix)) return false;
      found.push({ key, value: values.get(key) as string });
      return true;
    };
    if (reverse) {
      const from = after !== undefined && after < end ? after : end;
      let at = chunkOf(from);
      let i = lowerBound(chunks[at] as string[], from) - 1;
      for (; at >= 0; at--, i = (chunks[at]?.length ?? 0) - 1) {
        const chunk = chunks[at] as string[];
        for (; i >= 0; i--) if (!take(chunk[i])) return found;
      }
      return found;
    }
    // `after` is exclusive: the next possible text is itself and a NUL.
    const from = after !== undefined && after >= prefix ? `${after}\0` : prefix;
    let at = chunkOf(from);
    let i = lowerBound(chunks[at] as string[], from);
    for (; at < chunks.length; at++, i = 0) {
      const chunk = chunks[at] as string[];
      for (; i < chunk.length; i++) if (!take(chunk[i])) return found;
    }
    return found;
  }

  function count(prefix: string): number {
    const [from, to] = [chunkOf(prefix), chunkOf(above(prefix))];
    let all = lowerBound(chunks[to] as string[], above(prefix)) - lowerBound(chunks[from] as string[], prefix);
    for (let at = from; at < to; at++) all += (chunks[at] as string[]).length;
    return all;
  }

  return {
    get size() {
      return values.size;
    },
    get: (key) => values.get(key),
    set(key, value) {
      if (!values.has(key)) insert(key);
      values.set(key, value);
    },
    delete(key) {
      if (!values.delete(key)) return false;
      remove(key);
      return true;
    },
    range,
    count,
  };
}

/** Returns the index of the first element that is not below `key`. */
function lowerBound(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
