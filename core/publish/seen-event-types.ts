/** Writes rows that name the keys and event types in use, of the relay and of each key, with the first event. */
import { API_KEY, KEY_TYPE, TYPE } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";

/** Keys and their types remembered as written, together. A forgotten key costs a read. */
const HELD = 50_000;
/** Most types of one key that are written. A publisher that invents names must not add a row to each event for ever. */
const NAMED = 1_000;

interface SeenEventTypes {
  /** Returns the rows of these events that are missing in storage. Reads only for names that this process has not seen. */
  missing(
    events: readonly { readonly keyId: string; readonly type: string }[],
    now: number,
  ): Promise<readonly Change[]>;
  /** True when every name is known to be in storage, so that `missing` need not be called. */
  known(event: { readonly keyId: string; readonly type: string }): boolean;
  /** Notes that the rows of these events are in storage now. */
  written(events: readonly { readonly keyId: string; readonly type: string }[]): void;
}

/** Stands for the types of a key that has as many as are written, in little room: none of its names need be known. */
const FULL = new Set<string>();

export function createSeenEventTypes(storage: Pick<Storage, "getMany" | "range">): SeenEventTypes {
  /** Stored types by key; the oldest key is dropped first. */
  const used = new Map<string, Set<string>>();
  let held = 0;

  function known({ keyId, type }: { readonly keyId: string; readonly type: string }): boolean {
    const types = used.get(keyId);
    return types !== undefined && (types === FULL || types.has(type));
  }

  /** Holds the types of a key. @param more how many places that takes in addition: one for the key, one for each type */
  function hold(keyId: string, types: Set<string>, more: number): void {
    const full = types.size >= NAMED;
    used.set(keyId, full ? FULL : types);
    held += full ? more - types.size : more;
    while (held > HELD) {
      const [oldest, gone] = used.entries().next().value as [string, Set<string>];
      used.delete(oldest);
      held -= 1 + gone.size;
    }
  }

  /** Reads the types of a key, all of which count: a restart, or a dropped key, does not give it another thousand. */
  async function load(keyId: string): Promise<void> {
    const rows = await storage.range(KEY_TYPE.key({ keyId, name: "" }), { limit: NAMED });
    if (!used.has(keyId)) hold(keyId, new Set(rows.map(({ key }) => KEY_TYPE.id(key).name)), 1 + rows.length);
  }

  return {
    known,
    async missing(events, now) {
      const rows = new Set<string>();
      const unread = new Set(events.map(({ keyId }) => keyId).filter((keyId) => !used.has(keyId)));
      await Promise.all([...unread].map(load));
      for (const event of events) {
        if (known(event)) continue;
        const { keyId, type } = event;
        if ((used.get(keyId)?.size ?? 0) === 0) rows.add(API_KEY.key({ keyId }));
        rows.add(TYPE.key({ name: type }));
        rows.add(KEY_TYPE.key({ keyId, name: type }));
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
        const { keyId, type } = event;
        const types = used.get(keyId);
        // One that was dropped meanwhile is read again with its next event.
        if (types === undefined || known(event)) continue;
        hold(keyId, types.add(type), 1);
      }
    },
  };
}
