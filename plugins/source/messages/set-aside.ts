/**
 * Keeps messages that hold no valid event in the plug-in's own store, where no broker keeps them: a log that is read to
 * its end loses nothing. The newest are kept, so that a publisher that goes wrong for days fills no disk.
 */
import { StringDecoder } from "node:string_decoder";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import { derivedId } from "./derived-id.ts";
import type { Poison, RawMessage } from "./message.ts";

/** Most messages kept, by source. */
const MOST = 1_000;
/** Most bytes kept of a payload, and of the key and the headers together. */
const LONGEST = 64 * 1024;
/** Reads and deletes so many at once: each may be large. */
const PAGE = 20;

interface SetAsideStore {
  /** Resolves when the message is stored with its reason. */
  keep(message: RawMessage, poison: Poison, at: number): Promise<void>;
}

export function setAsideStore(storage: ScopedStorage, source: string): SetAsideStore {
  const prefix = `set-aside/${source}/`;
  let kept: number | undefined;
  let before: Promise<unknown> = Promise.resolve();

  async function count(): Promise<number> {
    let found = 0;
    let after: string | undefined;
    do {
      const page = await storage.range(prefix, { after, limit: PAGE });
      found += page.length;
      after = page.length < PAGE ? undefined : page.at(-1)?.key;
    } while (after !== undefined);
    return found;
  }

  async function put(message: RawMessage, { code, detail }: Poison, at: number): Promise<void> {
    const { payload, subject, place } = message;
    const bytes = Buffer.from(payload as string);
    const text = bytes.subarray(0, LONGEST).toString("base64");
    const value = { at, code, detail, subject, place, ...boundedOf(message), bytes: bytes.length, payload: text };
    // The order of keys is that of time.
    const name = `${prefix}${String(at).padStart(15, "0")}-${derivedId(place)}`;
    kept ??= await count();
    const oldest = kept < MOST ? [] : await storage.range(prefix, { limit: PAGE });
    await storage.commit([
      { op: "put", key: name, value: JSON.stringify(value) },
      ...oldest.map(({ key }) => ({ op: "delete" as const, key })),
    ]);
    kept += 1 - oldest.length;
  }

  return {
    keep(message, poison, at) {
      // One after the other: two at once would count the same rows as deleted.
      const done = before.then(() => put(message, poison, at));
      before = done.catch(() => undefined);
      return done;
    },
  };
}

/** The key and the headers, as far as there is room. What is cut says how long it was, and `headersLeftOut` counts the rest. */
function boundedOf({ key, headers }: RawMessage) {
  let room = LONGEST;
  function cut(text: string): string {
    const bytes = Buffer.from(text);
    if (bytes.length <= room) {
      room -= bytes.length;
      return text;
    }
    // A character that is cut in two is left out.
    const start = new StringDecoder("utf8").write(bytes.subarray(0, room));
    room = 0;
    return `${start}… (cut, ${bytes.length} bytes)`;
  }
  const keptKey = key === undefined ? undefined : cut(key);
  if (headers === undefined) return { key: keptKey };
  const all = Object.entries(headers);
  const kept: (readonly [string, string])[] = [];
  for (const [name, text] of all) if (room > 0) kept.push([cut(name), cut(text)]);
  const headersLeftOut = all.length > kept.length ? all.length - kept.length : undefined;
  return { key: keptKey, headers: Object.fromEntries(kept), headersLeftOut };
}
