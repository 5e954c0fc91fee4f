/**
 * Makes commits over a driver that knows only single items. The changes of a commit are first written as one item, the
 * journal; a start that finds a journal carries it out. So a commit is all or nothing if the driver writes one item so.
 */
import type { Driver } from "unstorage";
import { ConflictError, StartError, StorageError } from "../../../core/model/errors.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Change, Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { unmet } from "../embedded/conditions.ts";
import { pool } from "../embedded/parallel.ts";
import { sortedMap } from "../embedded/sorted-map.ts";
import type { EmbeddedStore } from "../embedded/storage.ts";
import { JOURNAL, drop, get, itemKey, itemName, itemText, itemValue, put } from "./items.ts";

/** Items read or written at once. */
const AT_ONCE = 16;
/** Commits that share one journal. */
const GROUP = 256;

/** The values to write; `null` stands for a removal. */
type Writes = ReadonlyMap<string, string | null>;

interface Pending {
  readonly changes: readonly Change[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** @throws StartError 78 when the driver does not keep what it gets */
export async function openDriver(driver: Driver, log: Log): Promise<EmbeddedStore> {
  await probe(driver);
  const keys = sortedMap();
  const foreign = await listKeys(driver, (key) => keys.set(key, ""));
  if (foreign > 0)
    log.warn("the driver holds items that do not belong to the relay; they stay untouched", { items: foreign });
  /** Decided, in the journal, and perhaps not in the items yet. */
  let unfinished: Writes = new Map();
  /** Reads under way. Each is marked when its item is written meanwhile. */
  const readings = new Set<{ readonly key: string; overtaken: boolean }>();
  /** A journal that should not exist could not be removed. */
  let stale = false;
  const pending: Pending[] = [];
  let committing: Promise<void> | undefined;

  async function read(key: string): Promise<string | undefined> {
    const decided = unfinished.get(key);
    if (decided !== undefined) return decided ?? undefined;
    if (keys.get(key) === undefined) return undefined;
    const name = itemName(key);
    const reading = { key, overtaken: false };
    readings.add(reading);
    let value: string | undefined;
    try {
      value = itemValue(await get(driver, name), name);
    } catch (error) {
      // Most drivers write in place: a read during a write may have seen half of an item.
      if (reading.overtaken && (error as StorageError).fault === "broken") return await read(key);
      throw error;
    } finally {
      readings.delete(reading);
    }
    if (value !== undefined || keys.get(key) === undefined) return value;
    if (reading.overtaken) return await read(key);
    keys.delete(key);
    log.error("the driver has lost a record", { key });
    return undefined;
  }

  /** Carries out what is decided. May be repeated. */
  async function finish(): Promise<void> {
    await pool([...unfinished], AT_ONCE, async ([key, value]) => {
      if (value === null) await drop(driver, itemName(key));
      else await put(driver, itemName(key), itemText(value));
    });
    if (stale || unfinished.size > 1) await drop(driver, JOURNAL);
    stale = false;
    unfinished = new Map();
  }

  function decide(writes: Writes): void {
    unfinished = writes;
    for (const reading of readings) if (writes.has(reading.key)) reading.overtaken = true;
    for (const [key, value] of writes) {
      if (value === null) keys.delete(key);
      else keys.set(key, "");
    }
  }

  async function carryOut(writes: Writes): Promise<void> {
    if (writes.size > 1) {
      try {
        await put(driver, JOURNAL, itemText(JSON.stringify([...writes])));
      } catch (error) {
        // It may exist nevertheless: then the next start must not carry it out.
        await drop(driver, JOURNAL).catch(() => {
          stale = true;
        });
        throw new StorageError(stale ? "uncertain" : "unavailable", "the driver cannot write", { cause: error });
      }
    }
    decide(writes);
    try {
      await finish();
    } catch (error) {
      throw new StorageError("uncertain", "the driver cannot write", { cause: error });
    }
  }

  async function commitGroup(group: readonly Pending[]): Promise<void> {
    if (stale || unfinished.size > 0) {
      await finish().catch((error: unknown) => {
        throw new StorageError("unavailable", "the driver cannot write", { cause: error });
      });
    }
    const asked = new Set(
      group.flatMap(({ changes }) => changes.filter((change) => change.if !== undefined).map(({ key }) => key)),
    );
    const known = new Map<string, string | undefined>();
    await pool([...asked], AT_ONCE, async (key) => void known.set(key, await read(key)));
    const writes = new Map<string, string | null>();
    const now = (key: string): string | undefined =>
      writes.has(key) ? (writes.get(key) ?? undefined) : known.get(key);
    const kept: Pending[] = [];
    for (const one of group) {
      const wrong = unmet(one.changes, now);
      if (wrong.length > 0) {
        one.reject(new ConflictError(wrong));
        continue;
      }
      kept.push(one);
      for (const change of one.changes)
        if (change.op !== "check") writes.set(change.key, change.op === "put" ? change.value : null);
    }
    await carryOut(writes);
    for (const { resolve } of kept) resolve();
  }

  async function commitAll(): Promise<void> {
    await Promise.resolve();
    while (pending.length > 0) {
      const group = pending.splice(0, GROUP);
      try {
        await commitGroup(group);
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    committing = undefined;
  }

  async function range(
    prefix: string,
    { after, limit = 100, reverse = false }: RangeOptions = {},
  ): Promise<readonly Entry[]> {
    const found: Entry[] = [];
    for (let edge = after; found.length < limit;) {
      const wanted = limit - found.length;
      const page = keys.range(prefix, { after: edge, limit: wanted, reverse });
      const values = await readMany(page.map(({ key }) => key));
      for (const [i, { key }] of page.entries()) {
        const value = values[i];
        if (value !== undefined) found.push({ key, value });
      }
      if (page.length < wanted) break;
      edge = page.at(-1)?.key;
    }
    return found;
  }

  async function readMany(wanted: readonly string[]): Promise<(string | undefined)[]> {
    const values: (string | undefined)[] = [];
    await pool([...wanted.entries()], AT_ONCE, async ([i, key]) => void (values[i] = await read(key)));
    return wanted.map((_, i) => values[i]);
  }

  const left = await readJournal(driver, log);
  if (left !== undefined) {
    stale = true;
    decide(left);
    await finish();
  }

  return {
    name: "unstorage",
    durability: "volatile",
    commit: (changes) =>
      new Promise((resolve, reject) => {
        pending.push({ changes, resolve, reject });
        committing ??= commitAll();
      }),
    getMany: readMany,
    range,
    count: async (prefix) => keys.count(prefix),
    status: async () => ({ driver: driver.name ?? "unnamed", rows: keys.size }),
    async close() {
      await committing;
      await driver.dispose?.();
    },
  };
}

/** Reads what a crash left in the journal; a torn journal was never acknowledged. */
async function readJournal(driver: Driver, log: Log): Promise<Writes | undefined> {
  try {
    const text = itemValue(await driver.getItem(JOURNAL, {}), JOURNAL);
    return text === undefined ? undefined : new Map(JSON.parse(text) as [string, string | null][]);
  } catch (error) {
    if (!(error instanceof StorageError)) throw new StartError(69, "the driver cannot read", { cause: error });
    log.error("a torn journal is dropped: its commit was never acknowledged", { item: JOURNAL });
    return new Map();
  }
}

/** @returns how many items are not the relay's */
async function listKeys(driver: Driver, add: (key: string) => void): Promise<number> {
  let foreign = 0;
  for (const name of await driver.getKeys("", {})) {
    const key = itemKey(name);
    if (key !== undefined) add(key);
    else if (name !== JOURNAL) foreign++;
  }
  return foreign;
}

async function probe(driver: Driver): Promise<void> {
  const key = "meta:probe";
  const name = itemName(key);
  const value = '{"a":1.0}\n"żółć"';
  try {
    const before = await driver.getItem(name, {});
    if (before === null || before === undefined) {
      await put(driver, name, itemText(value));
      const same = itemValue(await driver.getItem(name, {}), name) === value;
      const listed = (await driver.getKeys("", {})).some((listedName) => itemKey(listedName) === key);
      await drop(driver, name);
      if (!same || !listed) throw new StorageError("broken", "it did not return what was written to it");
    }
  } catch (error) {
    throw new StartError(
      78,
      `the driver ${driver.name ?? ""} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}
