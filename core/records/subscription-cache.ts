/** Caches the subscriptions of a key, as they are in storage, until a commit touches them. */
import { setNewest } from "../model/bounded-map.ts";
import { StorageError } from "../model/errors.ts";
import { parseSubscriptionKey, subscriptionKey, subscriptionsOf } from "../model/keys.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { isLive } from "../model/subscription.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Entry, Storage } from "../ports/storage.ts";

/** Keys held in memory, and deleted subscriptions held in memory. */
const KEYS_HELD = 10_000;
const TOMBSTONES_HELD = 10_000;
const PAGE = 500;
/** The bare prefix in a notification: any subscription may have changed. */
const ALL = "subscription:";

export interface SubscriptionCache {
  /** Returns the live subscriptions of a key, oldest id first. */
  of(keyId: string): MaybePromise<readonly Subscription[]>;
  /** Returns one subscription, deleted or not; `undefined` when it never existed. */
  get(keyId: string, id: string): MaybePromise<Subscription | undefined>;
}

/** @throws StorageError `broken` when the text is not a record */
export function decodeSubscription(text: string): Subscription {
  try {
    return JSON.parse(text) as Subscription;
  } catch (cause) {
    throw new StorageError("broken", "a subscription record is not valid JSON of a subscription", { cause });
  }
}

/** Yields every entry of a prefix, page by page. */
export async function* everyEntry(storage: Pick<Storage, "range">, prefix: string): AsyncGenerator<Entry> {
  let after: string | undefined;
  for (;;) {
    const page = await storage.range(prefix, { after, limit: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.key;
  }
}

interface KeyEntry {
  /** The pending read; later its result. */
  live: MaybePromise<readonly Subscription[]>;
  readonly byId: Map<string, Subscription>;
}

/**
 * A key's entry is in the map from before its read begins, and a change removes it. So a read that a change overtook is
 * never kept.
 */
export function createSubscriptionCache(
  storage: Pick<Storage, "range" | "getItem" | "watch">,
): SubscriptionCache & Disposable {
  const entries = new Map<string, KeyEntry>();
  const tombstones = new Map<string, Promise<Subscription | undefined>>();

  const unwatch = storage.watch((keys) => {
    for (const key of keys) {
      if (!key.startsWith(ALL)) continue;
      if (key === ALL) {
        entries.clear();
        tombstones.clear();
        continue;
      }
      const { keyId, id } = parseSubscriptionKey(key);
      entries.delete(keyId);
      tombstones.delete(`${keyId} ${id}`);
    }
  });

  async function read(keyId: string, into: KeyEntry): Promise<readonly Subscription[]> {
    const live = await liveOf(storage, keyId);
    for (const subscription of live) into.byId.set(subscription.id, subscription);
    return (into.live = live);
  }

  function entryOf(keyId: string): KeyEntry {
    const known = entries.get(keyId);
    if (known) {
      if (entries.size > KEYS_HELD / 2) {
        entries.delete(keyId);
        entries.set(keyId, known);
      }
      return known;
    }
    const made: KeyEntry = { live: [], byId: new Map() };
    setNewest(entries, keyId, made, KEYS_HELD);
    const reading = read(keyId, made);
    made.live = reading;
    reading.catch(() => {
      if (entries.get(keyId) === made) entries.delete(keyId);
    });
    return made;
  }

  function deleted(keyId: string, id: string): Promise<Subscription | undefined> {
    const name = `${keyId} ${id}`;
    const known = tombstones.get(name);
    if (known) return known;
    const reading = storage
      .getItem(subscriptionKey(keyId, id))
      .then((text) => (text === undefined ? undefined : decodeSubscription(text)));
    setNewest(tombstones, name, reading, TOMBSTONES_HELD);
    reading.then(
      // Only a permanent state is worth keeping: anybody can invent names that never existed.
      (found) => found?.deletedAt === undefined && tombstones.delete(name),
      () => tombstones.delete(name),
    );
    return reading;
  }

  return {
    of: (keyId) => entryOf(keyId).live,
    get(keyId, id) {
      const { live, byId } = entryOf(keyId);
      if (live instanceof Promise) return live.then(() => byId.get(id) ?? deleted(keyId, id));
      return byId.get(id) ?? deleted(keyId, id);
    },
    [Symbol.dispose]() {
      unwatch();
      entries.clear();
      tombstones.clear();
    },
  };
}

/** Reads the live subscriptions of a key from storage. */
export async function liveOf(storage: Pick<Storage, "range">, keyId: string): Promise<readonly Subscription[]> {
  const live: Subscription[] = [];
  for await (const entry of everyEntry(storage, subscriptionsOf(keyId))) {
    const subscription = decodeSubscription(entry.value);
    if (isLive(subscription)) live.push(subscription);
  }
  return live;
}
