/**
 * Makes commits over a driver that knows only single items. The changes of a commit are first written as one item, the
 * journal; a start that finds a journal carries it out. So a commit is all or nothing if the driver writes one item so.
 */
import type { Driver } from "unstorage";
import { StorageError } from "../../../core/model/errors.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Entry, RangeOptions } from "../../../core/ports/storage.ts";
import { judgeGroup, type PendingCommit } from "../embedded/group.ts";
import { groupLength } from "../embedded/group-length.ts";
import { pool } from "../embedded/parallel.ts";
import { sortedMap } from "../embedded/sorted-map.ts";
import type { EmbeddedStore } from "../embedded/storage.ts";
import { JOURNAL, drop, get, itemName, itemText, itemValue, put } from "./items.ts";
import { listKeys, probeDriver, readJournal, type Writes } from "./start.ts";

/** Items read or written at once. */
const AT_ONCE = 16;
/** Most commits that share one journal. */
const GROUP = 256;

/** @throws StartError 78 when the driver does not keep what it gets */
export async function openDriver(driver: Driver, log: Log): Promise<EmbeddedStore> {
  await probeDriver(driver);
  const keys = sortedMap();
  const foreign = await listKeys(driver, (key) => keys.set(key, ""));
  if (foreign > 0)
    log.warn("the driver holds items that do not belong to the relay; they stay untouched", { items: foreign });
  /** Decided, in the journal, and perhaps not in the items yet. */
  let unfinished: Writes = new Map();
  /** Reads under way. Each is marked when its item is written meanwhile. */
  const readings = new Set<{ readonly key: string; overtaken: boolean }>();
  /** Keys whose items were found broken, until they are read or written again. */
  const torn = new Set<string>();
  /** A journal that should not exist could not be removed. */
  let stale = false;
  const pending: PendingCommit[] = [];
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
      if ((error as StorageError).fault === "broken" && !torn.has(key)) {
        torn.add(key);
        log.error("an item cannot be read", { key, item: name });
      }
      throw error;
    } finally {
      readings.delete(reading);
    }
    torn.delete(key);
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
      torn.delete(key);
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

  async function commitGroup(group: readonly PendingCommit[]): Promise<void> {
    if (stale || unfinished.size > 0) {
      await finish().catch((error: unknown) => {
        throw new StorageError("unavailable", "the driver cannot write", { cause: error });
      });
    }
    const asked = new Set(
      group.flatMap(({ changes }) => changes.filter((change) => change.if !== undefined).map(({ key }) => key)),
    );
    const known = new Map<string, string | undefined>();
    await pool([...asked], AT_ONCE, async (key) => void known.set(key, await readOrEmpty(key)));
    const judged = judgeGroup(group, (key) => known.get(key));
    await carryOut(new Map(judged.writes.flat()));
    judged.answer();
  }

  async function commitAll(): Promise<void> {
    await Promise.resolve();
    while (pending.length > 0) {
      const group = pending.splice(0, groupLength(pending, GROUP));
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
      const values = await readMany(
        page.map(({ key }) => key),
        readOrEmpty,
      );
      for (const [i, { key }] of page.entries()) {
        const value = values[i];
        if (value !== undefined) found.push({ key, value });
      }
      if (page.length < wanted) break;
      edge = page.at(-1)?.key;
    }
    return found;
  }

  /**
   * Reads a broken item as empty, which is no record: so it stops nothing that reads its prefix, is met as damaged where it
   * is used, and can be replaced or deleted on condition that it is still so. It is counted, and named in the log.
   */
  async function readOrEmpty(key: string): Promise<string | undefined> {
    try {
      return await read(key);
    } catch (error) {
      if ((error as StorageError).fault === "broken") return "";
      throw error;
    }
  }

  async function readMany(wanted: readonly string[], readOne = read): Promise<(string | undefined)[]> {
    const values: (string | undefined)[] = [];
    await pool([...wanted.entries()], AT_ONCE, async ([i, key]) => void (values[i] = await readOne(key)));
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
    getMany: (wanted) => readMany(wanted),
    range,
    count: async (prefix) => keys.count(prefix),
    status: async () => ({ driver: driver.name ?? "unnamed", rows: keys.size, unreadable: torn.size }),
    async close() {
      await committing;
      await driver.dispose?.();
    },
  };
}
