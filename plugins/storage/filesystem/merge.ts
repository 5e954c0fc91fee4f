/** Reads in key order over both halves of what is stored: recent commits and the files. */
import { StorageError } from "../../../core/model/errors.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import type { Overlay, OverlayValue } from "./overlay.ts";
import { bounds } from "../embedded/sorted-keys.ts";

/** Files read at once. */
const READ_AHEAD = 16;

export interface Halves {
  readonly overlay: Pick<Overlay, "window">;
  /** Yields keys of files with `from` ≤ key < `to`, in the direction of reading. */
  keys(from: string, to: string | undefined, reverse: boolean): AsyncIterable<string>;
  get(key: string): Promise<string | undefined>;
}

export async function readRange(halves: Halves, prefix: string, options: RangeOptions): Promise<readonly Entry[]> {
  const { after, limit = 100, reverse = false } = options;
  const found: Entry[] = [];
  let { from, to } = bounds(prefix, after, reverse);
  while (found.length < limit && (to === undefined || from < to)) {
    const { lines, edge } = halves.overlay.window(from, to, limit - found.length, reverse);
    // The overlay was not read beyond its edge: the next turn begins there.
    const [begin, end] = edge === undefined ? [from, to] : reverse ? [edge, to] : [from, `${edge}\0`];
    await merge(halves, lines, begin, end, { found, limit, reverse });
    if (edge === undefined) break;
    if (reverse) to = edge;
    else from = `${edge}\0`;
  }
  return found;
}

/** Adds what stands between the bounds, in order, until there is enough. */
async function merge(
  halves: Halves,
  recent: ReadonlyMap<string, OverlayValue>,
  from: string,
  to: string | undefined,
  { found, limit, reverse }: { readonly found: Entry[]; readonly limit: number; readonly reverse: boolean },
): Promise<void> {
  const fresh = recent.entries();
  let next = fresh.next();
  let batch: Promise<Entry | undefined>[] = [];

  async function flush(): Promise<void> {
    const entries = await Promise.all(batch);
    batch = [];
    for (const entry of entries) if (entry !== undefined && found.length < limit) found.push(entry);
  }

  /** Returns true when there is enough. */
  async function add(entry: Promise<Entry | undefined>): Promise<boolean> {
    // It may fail before the others are awaited.
    entry.catch(() => {});
    batch.push(entry);
    if (batch.length >= READ_AHEAD || found.length + batch.length >= limit) await flush();
    return found.length >= limit;
  }

  /** Adds recent entries that come before `key`. */
  async function addRecent(key: string | undefined): Promise<boolean> {
    while (next.done !== true && (key === undefined || (reverse ? next.value[0] > key : next.value[0] < key))) {
      const [recentKey, value] = next.value;
      next = fresh.next();
      if (value !== null && (await add(Promise.resolve({ key: recentKey, value })))) return true;
    }
    return false;
  }

  for await (const key of halves.keys(from, to, reverse)) {
    if (await addRecent(key)) return;
    if (!recent.has(key) && (await add(read(halves, key)))) return;
  }
  if (await addRecent(undefined)) return;
  await flush();
}

/** Returns `undefined` for what was removed meanwhile, and for what went to quarantine, which is reported there. */
async function read({ get }: Halves, key: string): Promise<Entry | undefined> {
  try {
    const value = await get(key);
    return value === undefined ? undefined : { key, value };
  } catch (error) {
    if (error instanceof StorageError && error.fault === "broken") return undefined;
    throw error;
  }
}
