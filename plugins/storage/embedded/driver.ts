/** Builds the unstorage driver of a storage from its commit, getMany and range. */
import type { Change, Entry, RangeOptions } from "../../../core/ports/storage.ts";

/** Keys per page when all keys of a base are listed. */
const PAGE = 1_000;

export interface KeyValue {
  commit(changes: readonly Change[]): Promise<void>;
  getMany(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
}

interface SimpleDriver {
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<string | undefined>;
  getItems(items: readonly { readonly key: string }[]): Promise<{ key: string; value: string | null }[]>;
  setItem(key: string, value: string): Promise<void>;
  setItems(items: readonly { readonly key: string; readonly value: string }[]): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
  clear(base?: string): Promise<void>;
}

export function simpleDriver({ commit, getMany, range }: KeyValue): SimpleDriver {
  const getItem = async (key: string): Promise<string | undefined> => (await getMany([key]))[0];

  async function* pages(base: string): AsyncGenerator<readonly Entry[]> {
    for (let after: string | undefined; ;) {
      const page = await range(base, { after, limit: PAGE });
      if (page.length > 0) yield page;
      if (page.length < PAGE) return;
      after = page.at(-1)?.key;
    }
  }

  return {
    getItem,
    hasItem: async (key) => (await getItem(key)) !== undefined,
    async getItems(items) {
      const keys = items.map(({ key }) => key);
      const values = await getMany(keys);
      return keys.map((key, i) => ({ key, value: values[i] ?? null }));
    },
    setItem: (key, value) => commit([{ op: "put", key, value }]),
    setItems: (items) => commit(items.map(({ key, value }) => ({ op: "put", key, value }))),
    removeItem: (key) => commit([{ op: "delete", key }]),
    async getKeys(base = "") {
      const keys: string[] = [];
      for await (const page of pages(base)) for (const { key } of page) keys.push(key);
      return keys;
    },
    async clear(base = "") {
      for await (const page of pages(base)) await commit(page.map(({ key }) => ({ op: "delete", key })));
    },
  };
}
