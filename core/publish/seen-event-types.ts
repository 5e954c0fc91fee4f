/**
 * Writes rows that name the keys and event types in use, with the first event of each: types of the whole relay and of
 * each key.
 */
import { apiKeyKey, keyTypeKey, typeKey } from "../model/keys.ts";
import type { Change, Storage } from "../ports/storage.ts";

/** Types remembered as written, over all keys. A forgotten one costs a read. */
const HELD = 50_000;
/** Most types of one key that are written. A publisher that invents names must not add a row to each event for ever. */
const NAMED = 1_000;

export interface SeenEventTypes {
  /**
   * Returns the rows of these events that are missing in storage. Reads only for names that this process has not seen.
   */
  missing(
    events: readonly { readonly keyId: string; readonly type: string }[],
    now: number,
  ): Promise<readonly Change[]>;
  /** True when every name is known to be in storage, so that `missing` need not be called. */
  known(event: { readonly keyId: string; readonly type: string }): boolean;
  /** Notes that the rows of these events are in storage now. */
  written(events: readonly { readonly keyId: string; readonly type: string }[]): void;
}

export function createSeenEventTypes(storage: Pick<Storage, "getMany">): SeenEventTypes {
  /** Types by key; the oldest key is dropped first. */
  const used = new Map<string, Set<string>>();
  let held = 0;

  function known({ keyId, type }: { readonly keyId: string; readonly type: string }): boolean {
    const types = used.get(keyId);
    return types !== undefined && (types.has(type) || types.size >= NAMED);
  }

  return {
    known,
    async missing(events, now) {
      const rows = new Set<string>();
      for (const event of events) {
        if (known(event)) continue;
        const { keyId, type } = event;
        if (!used.has(keyId)) rows.add(apiKeyKey(keyId));
        rows.add(typeKey(type));
        rows.add(keyTypeKey(keyId, type));
      }
      if (rows.size === 0) return [];
      // The row says when the name was first used, so an existing one stays as it is.
      const wanted = [...rows];
      const found = await storage.getMany(wanted);
      return wanted
        .filter((_, i) => found[i] === undefined)
        .map((key) => ({ op: "put", key, value: String(now) }) as const);
    },
    written(events) {
      for (const event of events) {
        if (known(event)) continue;
        const { keyId, type } = event;
        let types = used.get(keyId);
        if (types === undefined) used.set(keyId, (types = new Set()));
        types.add(type);
        held++;
        if (held <= HELD) continue;
        const [oldest, gone] = used.entries().next().value as [string, Set<string>];
        used.delete(oldest);
        held -= gone.size;
      }
    },
  };
}
