/** Looks at a driver before it is used: whether it keeps what it gets, and what it holds. */
import type { Driver } from "unstorage";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import { JOURNAL, drop, itemKey, itemName, itemText, itemValue, put } from "./items.ts";

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
