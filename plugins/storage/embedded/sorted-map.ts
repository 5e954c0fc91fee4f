/** A map with its keys in byte order, for storages that live in memory or have their index there. */
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { bounds, prefixEnd, SortedKeys } from "./sorted-keys.ts";

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
