/** Caches the subscriptions of a key, as they are in storage, until a commit touches them. */
import { setNewest } from "../lib/bounded-map.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import { isLive } from "../model/subscription.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { readTexts } from "./damage.ts";
import { everyEntry } from "./every-entry.ts";
import { readSubscription, type Told } from "./subscription-record.ts";

/** Keys held in memory, their subscriptions in all, and deleted subscriptions. */
const KEYS_HELD = 10_000;
const SUBSCRIPTIONS_HELD = 100_000;
const TOMBSTONES_HELD = 10_000;
/** The bare prefix in a notification: any subscription may have changed. */

export interface SubscriptionCache {
  /** Returns the live subscriptions of a key, oldest id first; of one that is damaged, its outline. */
  of(keyId: string): MaybePromise<readonly Subscription[]>;
  /** Returns one subscription, deleted or not; `undefined` when it never existed. */
  get(keyId: string, id: string): MaybePromise<Subscription | undefined>;
}

/** Changed subscriptions of a key that are read by themselves. Where more have changed, all are read again. */
const MOST_CHANGED = 500;
/** How often what changed meanwhile is read before an answer that is already out of date is returned; at least 2. */
const PASSES = 16;

interface KeyEntry {
  /** The pending first read of all; later the list, which is as stored but for what has changed. */
  live: MaybePromise<readonly Subscription[]>;
  readonly byId: Map<string, Subscription>;
  /** With how many subscriptions it counts among those that are held. */
  counted: number;
  /** Subscriptions that have changed since they were read, each with the number of its last change. */
  readonly changed: Map<string, number>;
  /** The pending read of what has changed. */
  reading?: Promise<void>;
}

/**
 * A key's entry is in the map from before its read begins, and a change is noted in it until the row is read again. A
 * row that changes while it is read stays noted. So a read that a change overtook is never kept. Only changed rows are
 * read again, because a key with many subscriptions that change all the time would otherwise never have a list. One
 * version of a record stays one object, by which others know that it has not changed.
 */
export function createSubscriptionCache(
  storage: Pick<Storage, "range" | "getItem" | "getMany" | "watch">,
  told?: Told,
  mostHeld = SUBSCRIPTIONS_HELD,
): SubscriptionCache & Disposable {
  const entries = new Map<string, KeyEntry>();
  let held = 0;
  const tombstones = new Map<string, Promise<Subscription | undefined>>();
  let changes = 0;

  function drop(keyId: string, entry: KeyEntry): void {
    if (entries.get(keyId) !== entry) return;
    entries.delete(keyId);
    held -= entry.counted;
  }

  /** Drops keys that nobody has asked for lately, up to this one. */
  function shrink(newest: KeyEntry): void {
    for (const [keyId, entry] of entries) {
      if ((entries.size <= KEYS_HELD && held <= mostHeld) || entry === newest) return;
      drop(keyId, entry);
    }
  }

  function count(keyId: string, entry: KeyEntry): void {
    if (entries.get(keyId) !== entry) return;
    held += entry.byId.size - entry.counted;
    entry.counted = entry.byId.size;
    shrink(entry);
  }

  function note(keyId: string, id: string): void {
    tombstones.delete(`${keyId} ${id}`);
    const entry = entries.get(keyId);
    entry?.changed.set(id, ++changes);
    if (entry !== undefined && entry.changed.size > MOST_CHANGED) drop(keyId, entry);
  }

  const unwatch = storage.watch((keys) => {
    for (const key of keys) {
      if (!SUBSCRIPTION.has(key)) continue;
      if (key === SUBSCRIPTION.start) {
        entries.clear();
        held = 0;
        tombstones.clear();
        continue;
      }
      const { keyId, id } = SUBSCRIPTION.id(key);
      note(keyId, id);
    }
  });

  async function read(keyId: string, into: KeyEntry): Promise<readonly Subscription[]> {
    const live = await liveOf(storage, keyId, told);
    for (const subscription of live) into.byId.set(subscription.id, subscription);
    count(keyId, into);
    return (into.live = live);
  }

  async function readChanged(keyId: string, entry: KeyEntry): Promise<void> {
    const { byId, changed } = entry;
    const asked = [...changed];
    const keys = asked.map(([id]) => SUBSCRIPTION.key({ keyId, id }));
    const texts = await readTexts(storage, keys);
    let other = false;
    for (const [i, [id, change]] of asked.entries()) {
      const read = (text: string): Subscription => readSubscription(text, keys[i] as string, told);
      other = put(byId, id, texts[i], read) || other;
      if (changed.get(id) === change) changed.delete(id);
    }
    if (!other) return;
    entry.live = [...byId.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
    count(keyId, entry);
  }

  /** Returns the list with what has changed until now. Who only asks whether there is one need not wait for it. */
  function current(keyId: string, entry: KeyEntry): Promise<readonly Subscription[]> {
    const reading = readCurrent(keyId, entry);
    reading.catch(() => undefined);
    return reading;
  }

  async function readCurrent(keyId: string, entry: KeyEntry): Promise<readonly Subscription[]> {
    await entry.live;
    try {
      for (let pass = 0; entry.changed.size > 0 && pass < PASSES; pass++) {
        // The pending one may have begun before the change; the one after it has not.
        entry.reading ??= readChanged(keyId, entry).finally(() => (entry.reading = undefined));
        await entry.reading;
      }
    } catch (error) {
      drop(keyId, entry);
      throw error;
    }
    return entry.live;
  }

  function entryOf(keyId: string): KeyEntry {
    const known = entries.get(keyId);
    if (known) {
      if (entries.size > KEYS_HELD / 2 || held > mostHeld / 2) {
        entries.delete(keyId);
        entries.set(keyId, known);
      }
      return known;
    }
    const made: KeyEntry = { live: [], byId: new Map(), counted: 0, changed: new Map() };
    entries.set(keyId, made);
    shrink(made);
    const reading = read(keyId, made);
    made.live = reading;
    reading.catch(() => drop(keyId, made));
    return made;
  }

  function deleted(keyId: string, id: string): Promise<Subscription | undefined> {
    const name = `${keyId} ${id}`;
    const known = tombstones.get(name);
    if (known) return known;
    const key = SUBSCRIPTION.key({ keyId, id });
    const reading = readTexts(storage, [key]).then(([text]) =>
      text === undefined ? undefined : readSubscription(text, key, told),
    );
    setNewest(tombstones, name, reading, TOMBSTONES_HELD);
    reading.then(
      // Only a permanent state is worth keeping: anybody can invent names that never existed.
      (found) => found?.deletedAt === undefined && tombstones.delete(name),
      () => tombstones.delete(name),
    );
    return reading;
  }

  return {
    of(keyId) {
      const entry = entryOf(keyId);
      return entry.changed.size === 0 ? entry.live : current(keyId, entry);
    },
    get(keyId, id) {
      const entry = entryOf(keyId);
      const { live, byId, changed } = entry;
      if (live instanceof Promise || changed.has(id))
        return current(keyId, entry).then(() => byId.get(id) ?? deleted(keyId, id));
      return byId.get(id) ?? deleted(keyId, id);
    },
    [Symbol.dispose]() {
      unwatch();
      entries.clear();
      tombstones.clear();
    },
  };
}

/** Puts a row that was read again in its place. @returns false when it is the same version */
function put(
  byId: Map<string, Subscription>,
  id: string,
  text: string | undefined,
  read: (text: string) => Subscription,
): boolean {
  const known = byId.get(id);
  if (known !== undefined && SUBSCRIPTION.write(known) === text) return false;
  const subscription = text === undefined ? undefined : read(text);
  if (!isLive(subscription)) return byId.delete(id);
  byId.set(id, subscription);
  return true;
}

/** How many live subscriptions a key has. @param count the text of its row, which is missing or damaged at times */
export async function countLive(
  storage: Pick<Storage, "range">,
  keyId: string,
  count: string | undefined,
): Promise<number> {
  return count !== undefined && /^\d{1,9}$/.test(count) ? Number(count) : (await liveOf(storage, keyId)).length;
}

/** Reads the live subscriptions of a key from storage; of one that is damaged, its outline. */
export async function liveOf(
  storage: Pick<Storage, "range">,
  keyId: string,
  told?: Told,
): Promise<readonly Subscription[]> {
  const live: Subscription[] = [];
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId }))) {
    const subscription = readSubscription(value, key, told);
    if (isLive(subscription)) live.push(subscription);
  }
  return live;
}
