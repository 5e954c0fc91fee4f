/**
 * Keeps messages that hold no valid event in the plug-in's own store, where no broker keeps them: a log that is read to
 * its end loses nothing. The newest are kept, so that a publisher that goes wrong for days fills no disk.
 */
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import { derivedId } from "./derived-id.ts";
import type { Poison, RawMessage } from "./message.ts";

/** Most messages kept, by source. */
const MOST = 1_000;
/** Most bytes of a payload kept. */
const LONGEST = 64 * 1024;
/** Deletes so many at once when there are too many. */
const STEP = 100;

export interface SetAsideStore {
  /** Resolves when the message is stored with its reason. */
  keep(message: RawMessage, poison: Poison, at: number): Promise<void>;
}

export function setAsideStore(storage: ScopedStorage, source: string): SetAsideStore {
  const prefix = `set-aside/${source}/`;
  let kept: number | undefined;
  return {
    async keep(message, { code, detail }, at) {
      const { payload, subject, place, key: orderedBy, headers } = message;
      const bytes = Buffer.from(payload as string);
      const text = bytes.subarray(0, LONGEST).toString("base64");
      const value = { at, code, detail, subject, place, key: orderedBy, headers, bytes: bytes.length, payload: text };
      // The order of keys is that of time.
      const name = `${prefix}${String(at).padStart(15, "0")}-${derivedId(place)}`;
      kept ??= (await storage.range(prefix, { limit: MOST + STEP })).length;
      const oldest = kept < MOST ? [] : await storage.range(prefix, { limit: STEP });
      await storage.commit([
        { op: "put", key: name, value: JSON.stringify(value) },
        ...oldest.map(({ key }) => ({ op: "delete" as const, key })),
      ]);
      kept += 1 - oldest.length;
    },
  };
}
