/** Rows that name the keys and event types in use, written with the first event of each. */
import { apiKeyKey, typeKey } from "../model/keys.ts";
import type { Change, Storage } from "../ports/storage.ts";

/** Names remembered as written. Forgetting one costs a read. */
const HELD = 10_000;

export interface NamesUsed {
  /** The rows that are missing in storage for these events. Reads only for names that this process has not seen. */
  missing(
    events: readonly { readonly keyId: string; readonly type: string }[],
    now: number,
  ): Promise<readonly Change[]>;
  /** True when every name is known to stand in storage: `missing` need not be asked. */
  known(event: { readonly keyId: string; readonly type: string }): boolean;
  /** The rows of these events stand in storage now. */
  written(events: readonly { readonly keyId: string; readonly type: string }[]): void;
}

export function createNamesUsed(storage: Pick<Storage, "getMany">): NamesUsed {
  const keys = new Set<string>();
  const types = new Set<string>();
  const remember = (names: Set<string>, name: string): void => {
    if (names.size >= HELD && !names.has(name)) names.clear();
    names.add(name);
  };
  return {
    known: ({ keyId, type }) => keys.has(keyId) && types.has(type),
    async missing(events, now) {
      const rows = new Set<string>();
      for (const { keyId, type } of events) {
        if (!keys.has(keyId)) rows.add(apiKeyKey(keyId));
        if (!types.has(type)) rows.add(typeKey(type));
      }
      if (rows.size === 0) return [];
      // The row says when the name was first used, so one that stands there is left alone.
      const wanted = [...rows];
      const found = await storage.getMany(wanted);
      return wanted
        .filter((_, i) => found[i] === undefined)
        .map((key) => ({ op: "put", key, value: String(now) }) as const);
    },
    written(events) {
      for (const { keyId, type } of events) {
        remember(keys, keyId);
        remember(types, type);
      }
    },
  };
}
