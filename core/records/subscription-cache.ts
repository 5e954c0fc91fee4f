/** Caches the subscriptions of a key, as they are in storage, until a commit touches them. */
import { setNewest } from "../lib/bounded-map.ts";
import { SUBSCRIPTION } from "../model/schema.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import { isLive, type Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { readTexts } from "./damage.ts";
import { everyEntry } from "./every-entry.ts";
import { readSubscription, type OnDamage } from "./subscription-record.ts";

/** Keys held in memory, their subscriptions in all, and deleted subscriptions. */
const KEYS_HELD = 10_000;
const SUBSCRIPTIONS_HELD = 100_000;
const TOMBSTONES_HELD = 10_000;

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
  reading?: Promise<void>;
}

export const createSubscriptionCache = (
  storage: CachedStorage,
  onDamage?: OnDamage,
  mostHeld = SUBSCRIPTIONS_HELD,
): SubscriptionCache & Disposable => new Cache(storage, onDamage, mostHeld);

type CachedStorage = Pick<Storage, "range" | "getItem" | "getMany" | "watch">;

/**
 * A key's entry is in the map from before its read begins, and a change is noted in it until the row is read again. A
 * row that changes while it is read stays noted. So a read that a change overtook is never kept. Only changed rows are
 * read again, because a key with many subscriptions that change all the time would otherwise never have a list. One
 * version of a record stays one object, by which others know that it has not changed.
 */
class Cache implements SubscriptionCache, Disposable {
  readonly #storage: CachedStorage;
  readonly #onDamage: OnDamage | undefined;
  readonly #mostHeld: number;
  readonly #unwatch: () => void;
  readonly #entries = new Map<string, KeyEntry>();
  /** Subscriptions of all entries. */
  #held = 0;
  readonly #tombstones = new Map<string, Promise<Subscription | undefined>>();
  #changes = 0;

  constructor(storage: CachedStorage, onDamage: OnDamage | undefined, mostHeld: number) {
    [this.#storage, this.#onDamage, this.#mostHeld] = [storage, onDamage, mostHeld];
    this.#unwatch = storage.watch((keys) => {
      for (const key of keys) if (SUBSCRIPTION.has(key)) this.#note(key);
    });
  }

  of(keyId: string): MaybePromise<readonly Subscription[]> {
    const entry = this.#entryOf(keyId);
    return entry.changed.size === 0 ? entry.live : this.#current(keyId, entry);
  }

  get(keyId: string, id: string): MaybePromise<Subscription | undefined> {
    const entry = this.#entryOf(keyId);
    const { live, byId, changed } = entry;
    if (live instanceof Promise || changed.has(id))
      return this.#current(keyId, entry).then(() => byId.get(id) ?? this.#deleted(keyId, id));
    return byId.get(id) ?? this.#deleted(keyId, id);
  }

  [Symbol.dispose](): void {
    this.#unwatch();
    this.#forgetAll();
  }

  #forgetAll(): void {
    this.#entries.clear();
    this.#held = 0;
    this.#tombstones.clear();
  }

  #note(key: string): void {
    // The bare prefix: any subscription may have changed.
    if (key === SUBSCRIPTION.start) return this.#forgetAll();
    const { keyId, id } = SUBSCRIPTION.id(key);
    this.#tombstones.delete(`${keyId} ${id}`);
    const entry = this.#entries.get(keyId);
    entry?.changed.set(id, ++this.#changes);
    if (entry !== undefined && entry.changed.size > MOST_CHANGED) this.#drop(keyId, entry);
  }

  #entryOf(keyId: string): KeyEntry {
    const known = this.#entries.get(keyId);
    if (known) {
      if (this.#entries.size > KEYS_HELD / 2 || this.#held > this.#mostHeld / 2) {
        this.#entries.delete(keyId);
        this.#entries.set(keyId, known);
      }
      return known;
    }
    const made: KeyEntry = { live: [], byId: new Map(), counted: 0, changed: new Map() };
    this.#entries.set(keyId, made);
    this.#shrink(made);
    const reading = this.#read(keyId, made);
    made.live = reading;
    reading.catch(() => this.#drop(keyId, made));
    return made;
  }

  #drop(keyId: string, entry: KeyEntry): void {
    if (this.#entries.get(keyId) !== entry) return;
    this.#entries.delete(keyId);
    this.#held -= entry.counted;
  }

  /** Drops keys that nobody has asked for lately, up to this one. */
  #shrink(newest: KeyEntry): void {
    for (const [keyId, entry] of this.#entries) {
      if ((this.#entries.size <= KEYS_HELD && this.#held <= this.#mostHeld) || entry === newest) return;
      this.#drop(keyId, entry);
    }
  }

  #count(keyId: string, entry: KeyEntry): void {
    if (this.#entries.get(keyId) !== entry) return;
    this.#held += entry.byId.size - entry.counted;
    entry.counted = entry.byId.size;
    this.#shrink(entry);
  }

  async #read(keyId: string, into: KeyEntry): Promise<readonly Subscription[]> {
    const live = await liveOf(this.#storage, keyId, this.#onDamage);
    for (const subscription of live) into.byId.set(subscription.id, subscription);
    this.#count(keyId, into);
    return (into.live = live);
  }

  /** Returns the list with what has changed until now. Who only asks whether there is one need not wait for it. */
  #current(keyId: string, entry: KeyEntry): Promise<readonly Subscription[]> {
    const reading = this.#readCurrent(keyId, entry);
    reading.catch(() => undefined);
    return reading;
  }

  async #readCurrent(keyId: string, entry: KeyEntry): Promise<readonly Subscription[]> {
    await entry.live;
    try {
      for (let pass = 0; entry.changed.size > 0 && pass < PASSES; pass++) {
        // The pending one may have begun before the change; the one after it has not.
        entry.reading ??= this.#readChanged(keyId, entry).finally(() => (entry.reading = undefined));
        await entry.reading;
      }
    } catch (error) {
      this.#drop(keyId, entry);
      throw error;
    }
    return entry.live;
  }

  async #readChanged(keyId: string, entry: KeyEntry): Promise<void> {
    const { byId, changed } = entry;
    const asked = [...changed];
    const keys = asked.map(([id]) => SUBSCRIPTION.key({ keyId, id }));
    const texts = await readTexts(this.#storage, keys);
    let other = false;
    for (const [i, [id, change]] of asked.entries()) {
      const read = (text: string): Subscription => readSubscription(text, keys[i] as string, this.#onDamage);
      other = put(byId, id, texts[i], read) || other;
      if (changed.get(id) === change) changed.delete(id);
    }
    if (!other) return;
    entry.live = [...byId.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
    this.#count(keyId, entry);
  }

  #deleted(keyId: string, id: string): Promise<Subscription | undefined> {
    const name = `${keyId} ${id}`;
    const known = this.#tombstones.get(name);
    if (known) return known;
    const key = SUBSCRIPTION.key({ keyId, id });
    const reading = readTexts(this.#storage, [key]).then(([text]) =>
      text === undefined ? undefined : readSubscription(text, key, this.#onDamage),
    );
    setNewest(this.#tombstones, name, reading, TOMBSTONES_HELD);
    reading.then(
      // Only a permanent state is worth keeping: anybody can invent names that never existed.
      (found) => found?.deletedAt === undefined && this.#tombstones.delete(name),
      () => this.#tombstones.delete(name),
    );
    return reading;
  }
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

/** Counts the live subscriptions of a key. @param count the text of its row, which is missing or damaged at times */
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
  onDamage?: OnDamage,
): Promise<readonly Subscription[]> {
  const live: Subscription[] = [];
  for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.under({ keyId }))) {
    const subscription = readSubscription(value, key, onDamage);
    if (isLive(subscription)) live.push(subscription);
  }
  return live;
}
