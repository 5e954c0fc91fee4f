/** `unstorage(driver)` uses any driver of unstorage, and says what it cannot promise. */
import type { Driver } from "unstorage";
import { optionProblems } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { refuseOptions, StartError, StorageError } from "../../core/model/errors.ts";
import { sortedMap } from "./embedded/sorted-map.ts";
import { embedded, WINDOW, type EmbeddedOptions } from "./embedded/storage.ts";
import { itemJournal } from "./unstorage/item-journal.ts";
import { drop, itemKey, itemName, ITEMS, itemText, itemValue, listKeys, put } from "./unstorage/items.ts";
import { Store } from "./unstorage/store.ts";

/**
 * For trying things out, and for stores that nothing else here reaches. What it cannot promise, and says at start:
 *
 * - Durability is `volatile`: nobody knows whether a driver's write is on a disk when it resolves.
 * - A commit is all or nothing only if the driver writes one item completely or not at all; two processes on the same
 *   data overwrite each other unnoticed.
 * - All keys (not the values) are held in memory, and listed at start.
 * - What the driver drops by itself, as a cache does, is gone; the log reports it when it is missed.
 */
export function unstorage(driver: Driver, options: EmbeddedOptions = {}): Plugin<"storage", Storage> {
  const problems = [...problemsOf(driver), ...optionProblems<EmbeddedOptions>(options, { window: WINDOW })];
  return {
    kind: "storage",
    name: "unstorage",
    problems,
    async setup({ clock, log }) {
      refuseOptions(problems);
      const name = driver.name ?? "unnamed";
      await probeDriver(driver);
      const keys = sortedMap();
      const foreign = await listKeys(driver, (key) => keys.set(key, ""));
      if (foreign > 0)
        log.warn("the driver holds items that do not belong to the relay; they stay untouched", { items: foreign });
      const journal = await itemJournal(driver, log);
      const store = new Store({ driver, form: ITEMS, keys, journal, log });
      await store.recover(journal.left);
      log.warn(
        "this storage promises less than the relay's own: acknowledged events may be lost in a crash, and only one process may use it",
        { driver: name },
      );
      async function status() {
        const { rows, unreadable } = store.facts();
        return { driver: name, rows, unreadable };
      }
      return embedded({ ...store.calls(), name: "unstorage", durability: "volatile", status }, clock, options);
    },
  };
}

function problemsOf(driver: Driver | undefined): { readonly path: string; readonly message: string }[] {
  const needed = ["getItem", "setItem", "removeItem", "getKeys"] as const;
  const missing = needed.filter((method) => typeof driver?.[method] !== "function");
  return missing.map((method) => ({ path: "driver", message: `the driver cannot be written to: it has no ${method}` }));
}

/** @throws StartError 78 when the driver does not keep what it gets */
async function probeDriver(driver: Driver): Promise<void> {
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
