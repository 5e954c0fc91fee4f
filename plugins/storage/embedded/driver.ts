/** Builds the unstorage driver of a storage from its commit, getMany and range. */
import type { Change, Entry, RangeOptions } from "../../../core/ports/storage.ts";

/** Keys per page when all keys of a base are listed. */
const PAGE = 1_000;

export interface KeyValue {
  commit(changes: readonly Change[]): Promise<void>;
  getMany(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  range(prefix: string, options?: RangeOptions): Promise<readonly Entry[]>;
}

export function simpleDriver({ commit, getMany, range }: KeyValue) {
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
    hasItem: async (key: string) => (await getItem(key)) !== undefined,
    async getItems(items: readonly { readonly key: string }[]) {
      const keys = items.map(({ key }) => key);
      const values = await getMany(keys);
      return keys.map((key, i) => ({ key, value: values[i] ?? null }));
    },
    setItem: (key: string, value: string) => commit([{ op: "put", key, value }]),
    setItems: (items: readonly { readonly key: string; readonly value: string }[]) =>
      commit(items.map(({ key, value }) => ({ op: "put", key, value }))),
    removeItem: (key: string) => commit([{ op: "delete", key }]),
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
