/**
 * Makes commits over a driver that knows only single items. The changes of a group of commits are first written to a
 * journal, and a start carries out what it finds there: so each commit is all or nothing. The items are written before
 * the commits are acknowledged or, where the journal is durable by itself, within a second.
 */
import type { Driver } from "unstorage";
import { StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Change, Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { groupLength, judgeGroup, type KeyWrite, type PendingCommit } from "../embedded/group.ts";
import { encodeName } from "../embedded/key-names.ts";
import type { SortedMap } from "../embedded/sorted-map.ts";
import type { EmbeddedStore } from "../embedded/storage.ts";
import { pool } from "./disk.ts";
import { type ItemForm, drop, get, put } from "./items.ts";

/** Most commits that share one line of the journal, or one sync. */
const GROUP = 512;
/** Items are brought up to date at most this long after a commit… */
const LAG_MS = 1_000;
/** …or as soon as this much waits for them. */
const LAG_KEYS = 4_000;
const LAG_BYTES = 8 << 20;
/** Commits wait while the items are this many times as far behind. */
const BEHIND = 4;
const KEY = /^[ -~]{1,1024}$/;
const LONGEST_PREFIX = 180;

/** Keeps what is committed until the items have it. */
export interface Journal {
  /** @throws StorageError `uncertain` when it may be found by the next start nevertheless */
  append(commits: readonly (readonly KeyWrite[])[]): Promise<void>;
  /** Begins another part. Returns how to drop all before it, once the items have that. */
  rotate(): Promise<() => Promise<void>>;
  /** A commit that failed may be found by the next start; `rotate` and its drop end that. */
  readonly uncertain: boolean;
  close(): Promise<void>;
}

interface Shelf {
  readonly driver: Driver;
  readonly form: ItemForm;
  readonly keys: SortedMap;
  /** Left out where items are never torn, and gone with the process. */
  readonly journal?: Journal;
  readonly log: Log;
  /** The journal is durable: commits do not wait for the items, which follow by this clock. */
  readonly behind?: Clock;
  /** Makes durable what was put and removed. */
  sync?(): Promise<void>;
  /** Takes a broken item away; without it, a broken item stays, and is read as empty among others. */
  condemn?(name: string): void;
}

/** One folder after the other, as most drivers keep a prefix in one. */
const byKey = ([a]: KeyWrite, [b]: KeyWrite): number => (a < b ? -1 : 1);
const weight = (key: string, value: string | null): number => key.length + (value?.length ?? 0) + 64;

export class Store {
  readonly #shelf: Shelf;
  /** Decided, in the journal, and perhaps not in the items yet; `null` stands for a removal. */
  readonly #dirty = new Map<string, string | null>();
  #bytes = 0;
  /** Reads under way. Each is marked when its item is decided meanwhile. */
  readonly #readings = new Set<{ readonly key: string; overtaken: boolean }>();
  /** Keys whose items were found broken, until they are read or written again. */
  readonly #torn = new Set<string>();
  readonly #pending: PendingCommit[] = [];
  readonly #ended = new AbortController();
  #committing: Promise<void> | undefined;
  #flushing: Promise<void> | undefined;
  #timer = false;
  #lastFault: StorageError | undefined;
  /** The journal has one end, so writers wait for each other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(shelf: Shelf) {
    this.#shelf = shelf;
  }

  /** @throws RangeError when a text cannot be a key */
  async commit(changes: readonly Change[]): Promise<void> {
    for (const { key } of changes) assertKey(key);
    return new Promise((resolve, reject) => {
      this.#pending.push({ changes, resolve, reject });
      this.#committing ??= this.#commitAll();
    });
  }

  async #commitAll(): Promise<void> {
    // Commits of the same turn share the first group.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const group = this.#pending.splice(0, groupLength(this.#pending, GROUP));
      try {
        await this.#commitGroup(group);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    // In the same turn as the last check, so that no commit comes in between and waits for ever.
    this.#committing = undefined;
  }

  async #commitGroup(all: readonly PendingCommit[]): Promise<void> {
    const { behind, journal } = this.#shelf;
    await this.#catchUp();
    const asked = all.flatMap(({ changes }) => changes.filter((one) => one.if !== undefined).map(({ key }) => key));
    const known = new Map<string, string | undefined>();
    const failed = new Map<string, unknown>();
    await pool([...new Set(asked)], async (key) => {
      await this.#readOrEmpty(key).then(
        (value) => known.set(key, value),
        (error: unknown) => failed.set(key, error),
      );
    });
    const group = all.filter(({ changes, reject }) => {
      const unread = changes.find(({ key }) => failed.has(key));
      if (unread !== undefined) reject(failed.get(unread.key));
      return unread === undefined;
    });
    const judged = judgeGroup(group, (key) => known.get(key));
    const commits = judged.writes.filter((writes) => writes.length > 0);
    // The journal and what reads see change together: nobody else may write in between.
    if (commits.length > 0)
      await this.#alone(async () => {
        await journal?.append(commits);
        this.#decide(commits.flat());
      });
    if (behind === undefined && this.#dirty.size > 0)
      await this.#flush().catch((error: unknown) => {
        throw new StorageError("uncertain", "the driver cannot write", { cause: error });
      });
    judged.answer();
    if (behind !== undefined && (this.#dirty.size > LAG_KEYS || this.#bytes > LAG_BYTES)) void this.#flushQuietly();
    else this.#flushSoon();
  }

  /** Waits while the items are too far behind; refuses when they cannot follow. */
  async #catchUp(): Promise<void> {
    if (this.#shelf.behind === undefined && this.#unsettled) await this.#flush();
    while (this.#dirty.size > LAG_KEYS * BEHIND || this.#bytes > LAG_BYTES * BEHIND) {
      await this.#flush().catch(() => {});
      if (this.#lastFault !== undefined) throw this.#lastFault;
    }
  }

  async #read(key: string): Promise<string | undefined> {
    const { driver, form, keys, log } = this.#shelf;
    const decided = this.#dirty.get(key);
    if (decided !== undefined) return decided ?? undefined;
    if (keys.get(key) === undefined) return undefined;
    const name = form.name(key);
    const reading = { key, overtaken: false };
    this.#readings.add(reading);
    let value: string | undefined;
    try {
      value = form.value(key, await get(driver, name));
    } catch (error) {
      // Most drivers write in place: a read during a write may have seen half of an item.
      if (reading.overtaken) return await this.#read(key);
      if ((error as StorageError).fault === "broken") this.#broken(key, name);
      throw error;
    } finally {
      this.#readings.delete(reading);
    }
    this.#torn.delete(key);
    if (value !== undefined || keys.get(key) === undefined) return value;
    if (reading.overtaken) return await this.#read(key);
    keys.delete(key);
    log.error("the driver has lost a record", { key });
    return undefined;
  }

  #broken(key: string, name: string): void {
    const { condemn, keys, log } = this.#shelf;
    if (condemn !== undefined) {
      if (keys.delete(key)) condemn(name);
    } else if (!this.#torn.has(key)) {
      this.#torn.add(key);
      log.error("an item cannot be read", { key, item: name });
    }
  }

  /**
   * Reads a broken item as empty, which is no record: so it stops nothing that reads its prefix, is met as damaged where it
   * is used, and can be replaced or deleted on condition that it is still so. It is counted, and named in the log.
   */
  async #readOrEmpty(key: string): Promise<string | undefined> {
    try {
      return await this.#read(key);
    } catch (error) {
      if ((error as StorageError).fault === "broken") return this.#torn.has(key) ? "" : undefined;
      throw error;
    }
  }

  async getMany(keys: readonly string[]): Promise<(string | undefined)[]> {
    const values: (string | undefined)[] = keys.map(() => undefined);
    await pool([...keys.entries()], async ([i, key]) => void (values[i] = await this.#read(key)));
    return values;
  }

  async range(prefix: string, options: RangeOptions = {}): Promise<readonly Entry[]> {
    const { after, limit = 100, reverse = false } = options;
    const found: Entry[] = [];
    for (let edge = after; found.length < limit;) {
      const wanted = limit - found.length;
      const page = this.#shelf.keys.range(prefix, { after: edge, limit: wanted, reverse });
      const values = new Map<string, string | undefined>();
      await pool(page, async ({ key }) => void values.set(key, await this.#readOrEmpty(key)));
      for (const { key } of page) {
        const value = values.get(key);
        if (value !== undefined) found.push({ key, value });
      }
      if (page.length < wanted) break;
      edge = page.at(-1)?.key;
    }
    return found;
  }

  /** Runs one at a time, in order; a failed one lets the next begin. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(work, work);
    // Lines that it may have left in the journal are settled soon, also when nothing else is written.
    this.#writing = done.catch(() => this.#flushSoon());
    return done;
  }

  #decide(writes: Iterable<KeyWrite>): void {
    const { keys } = this.#shelf;
    for (const [key, value] of writes) {
      this.#settle(key);
      this.#dirty.set(key, value);
      this.#bytes += weight(key, value);
      this.#torn.delete(key);
      if (value === null) keys.delete(key);
      else keys.set(key, "");
    }
    for (const reading of this.#readings) if (this.#dirty.has(reading.key)) reading.overtaken = true;
  }

  #settle(key: string): void {
    const value = this.#dirty.get(key);
    if (value === undefined) return;
    this.#dirty.delete(key);
    this.#bytes -= weight(key, value);
  }

  /** Writes what is decided to the items, and drops what the journal no longer needs. May be repeated. */
  #flush(): Promise<void> {
    this.#flushing ??= this.#carryOut().finally(() => (this.#flushing = undefined));
    return this.#flushing;
  }

  async #carryOut(): Promise<void> {
    const { driver, form, journal, sync, behind, log } = this.#shelf;
    try {
      // From here on the older part of the journal and the snapshot are the same state.
      const begin = async () => ({ forget: await journal?.rotate(), snapshot: [...this.#dirty].sort(byKey) });
      const { forget, snapshot } = await this.#alone(begin);
      await pool(snapshot, async ([key, value]) => {
        if (value === null) await drop(driver, form.name(key));
        else await put(driver, form.name(key), form.text(key, value));
      });
      await sync?.();
      for (const [key, value] of snapshot) if (this.#dirty.get(key) === value) this.#settle(key);
      if (forget !== undefined) await this.#alone(forget);
      this.#lastFault = undefined;
    } catch (cause) {
      const failure =
        cause instanceof StorageError ? cause : new StorageError("unavailable", "the driver cannot write", { cause });
      const facts = { fault: failure.fault, reason: failure.message };
      if (this.#lastFault === undefined && behind !== undefined)
        log.error("records could not be written to their files; the journal keeps them", facts);
      throw (this.#lastFault = failure);
    }
  }

  get #unsettled(): boolean {
    return this.#dirty.size > 0 || this.#shelf.journal?.uncertain === true;
  }

  #flushSoon(): void {
    const { behind } = this.#shelf;
    if (behind === undefined || this.#timer || this.#ended.signal.aborted || !this.#unsettled) return;
    this.#timer = true;
    const awake = (): Promise<void> => {
      this.#timer = false;
      return this.#flushQuietly();
    };
    void behind.sleep(behind.now() + LAG_MS, this.#ended.signal).then(awake, () => {});
  }

  /** A failure was reported; the journal keeps what the items do not contain, and the next turn tries again. */
  async #flushQuietly(): Promise<void> {
    await this.#flush().catch(() => {});
    this.#flushSoon();
  }

  /** Carries out what a journal had, before anything else is asked. */
  async recover(writes: Iterable<KeyWrite> | AsyncIterable<KeyWrite>): Promise<void> {
    for await (const write of writes) this.#decide([write]);
    await this.#flush().catch((error: StorageError) => {
      // Even on a full disk there is much to read and deliver: the journal keeps what the items lack.
      if (error.fault !== "full") throw error;
      this.#flushSoon();
    });
  }

  /** Returns what the storages on it have in common. */
  calls(): Pick<EmbeddedStore, "commit" | "getMany" | "range" | "count" | "close"> {
    return {
      commit: (changes) => this.commit(changes),
      getMany: (keys) => this.getMany(keys),
      range: (prefix, options) => this.range(prefix, options),
      count: async (prefix) => this.#shelf.keys.count(prefix),
      close: () => this.close(),
    };
  }

  facts() {
    const { size } = this.#shelf.keys;
    return { rows: size, unreadable: this.#torn.size, behindKeys: this.#dirty.size, behindBytes: this.#bytes };
  }

  /** Brings the items up to date. */
  async close(): Promise<void> {
    await this.#committing;
    await this.#flushing?.catch(() => {});
    if (this.#unsettled) await this.#flush().catch(() => {});
    await this.abandon();
    await this.#shelf.driver.dispose?.();
  }

  /** Ends with nothing more written, for a start that failed: what the items lack stays in the journal. */
  async abandon(): Promise<void> {
    this.#ended.abort();
    await this.#flushing?.catch(() => {});
    await this.#writing;
    await this.#shelf.journal?.close();
  }
}

function assertKey(key: string): void {
  if (!KEY.test(key) || key.startsWith(":"))
    throw new RangeError("a key must be 1 to 1024 characters of printable ASCII and must not begin with a colon");
  const colon = key.indexOf(":");
  if (colon * 3 > LONGEST_PREFIX && encodeName(key.slice(0, colon)).length > LONGEST_PREFIX)
    throw new RangeError("the first part of a key is too long");
}
