/** The journal as one item of the driver: a commit is all or nothing if the driver writes one item so. */
import type { Driver } from "unstorage";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { KeyWrite } from "../embedded/group.ts";
import { JOURNAL, drop, itemText, itemValue, put } from "./items.ts";
import type { Journal } from "./store.ts";

/** `left`: what a crash left in it. @throws StartError 69 when the driver cannot read */
export async function itemJournal(driver: Driver, log: Log): Promise<Journal & { readonly left: readonly KeyWrite[] }> {
  let left: readonly KeyWrite[] = [];
  /** The item exists, or may. */
  let present = true;
  try {
    const text = itemValue(await driver.getItem(JOURNAL, {}), JOURNAL);
    if (text === undefined) present = false;
    else left = JSON.parse(text) as KeyWrite[];
  } catch (error) {
    if (!(error instanceof StorageError)) throw new StartError(69, "the driver cannot read", { cause: error });
    log.error("a torn journal is dropped: its commit was never acknowledged", { item: JOURNAL });
  }
  async function forget(): Promise<void> {
    if (present) await drop(driver, JOURNAL);
    present = false;
  }
  return {
    left,
    get uncertain() {
      return present;
    },
    async append(commits) {
      const writes = new Map(commits.flat());
      // One item is whole by itself.
      if (writes.size < 2) return;
      present = true;
      try {
        await put(driver, JOURNAL, itemText(JSON.stringify([...writes])));
      } catch (error) {
        // It may exist nevertheless: then the next start must not carry it out.
        await forget().catch(() => {});
        throw new StorageError(present ? "uncertain" : "unavailable", "the driver cannot write", { cause: error });
      }
    },
    rotate: async () => forget,
    close: async () => {},
  };
}
