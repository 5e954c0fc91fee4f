/** Looks at a driver before it is used: whether it keeps what it gets, what it holds, and what a crash left behind. */
import type { Driver } from "unstorage";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import { JOURNAL, drop, itemKey, itemName, itemText, itemValue, put } from "./items.ts";

/** The values to write; `null` stands for a removal. */
export type Writes = ReadonlyMap<string, string | null>;

/** Reads what a crash left in the journal; a torn journal was never acknowledged. */
export async function readJournal(driver: Driver, log: Log): Promise<Writes | undefined> {
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
export async function listKeys(driver: Driver, add: (key: string) => void): Promise<number> {
  let foreign = 0;
  for (const name of await driver.getKeys("", {})) {
    const key = itemKey(name);
    if (key !== undefined) add(key);
    else if (name !== JOURNAL) foreign++;
  }
  return foreign;
}

/** @throws StartError 78 when the driver does not keep what it gets */
export async function probeDriver(driver: Driver): Promise<void> {
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
