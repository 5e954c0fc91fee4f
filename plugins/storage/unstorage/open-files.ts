/** Opens a folder of plain files as a store, and repairs what an earlier run left behind before any read. */
import { chmodSync, lstatSync, mkdirSync, readdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { StartError } from "../../../core/model/errors.ts";
import { makeDurableFolder, syncFolder } from "../../../core/ports/folder.ts";
import type { Log, PluginContext } from "../../../core/ports/plugin.ts";
import { diskRoom } from "../embedded/free-space.ts";
import { lockFolder } from "../embedded/lock.ts";
import { sortedMap } from "../embedded/sorted-map.ts";
import type { EmbeddedStore } from "../embedded/storage.ts";
import { convertRecords } from "./convert.ts";
import { codeOf, fault, readRegular, replaceFile } from "./disk.ts";
import { filesDriver, RECORDS } from "./files.ts";
import { FileJournal } from "./journal.ts";
import { quarantine } from "./quarantine.ts";
import { listKeys } from "./items.ts";
import { Store } from "./store.ts";

/** Grows when the layout of the folder changes. 1 had its records elsewhere; a relay that knows only 1 ends with 78. */
const FORMAT = 2;

/** @throws StartError 75 when another process uses the folder; 78 when it was made by a newer version, or cannot be used */
export async function openFiles(given: string, { clock, log }: PluginContext): Promise<EmbeddedStore> {
  const dir = prepareFolder(given, log);
  const lock = await lockFolder(dir);
  let end: () => Promise<void> = async () => {};
  try {
    const place = (name: string): string => ownFolder(join(dir, name));
    const [items, temporary, kept] = [place("items"), place("tmp"), quarantine(place("quarantine"), log, clock.now())];
    // Files that were being written when the process died; the journal has their content.
    for (const name of readdirSync(temporary)) rmSync(join(temporary, name), { recursive: true, force: true });
    const journal = new FileJournal(place("journal"), kept);
    await checkFormat(dir, temporary);
    syncFolder(dir);
    const driver = filesDriver(items, temporary, kept);
    await convertRecords(join(dir, "records"), driver, kept);
    const keys = sortedMap();
    await listKeys(driver, (key) => keys.set(key, ""));
    const { sync, condemn } = driver;
    const store = new Store({ driver, sync, condemn, form: RECORDS, keys, journal, log, behind: clock });
    end = () => store.abandon();
    await store.recover(journal.replay());
    return {
      ...store.calls(),
      name: "filesystem",
      durability: "fsync",
      room: () => diskRoom(dir),
      async status() {
        const { rows, behindKeys, behindBytes } = store.facts();
        const { freeBytes } = await diskRoom(dir);
        return { rows, journalBytes: journal.bytes, behindKeys, behindBytes, quarantined: kept.count, freeBytes };
      },
      async close() {
        await store.close();
        lock.release();
      },
    };
  } catch (error) {
    // Otherwise it would try again by itself, in a folder that is not locked any more.
    await end();
    lock.release();
    throw error instanceof StartError ? error : fault(error, `opening ${dir}`);
  }
}

/** Makes the folder itself, which must exist before its lock can be taken. @throws StartError */
function prepareFolder(dir: string, log: Log): string {
  try {
    makeDurableFolder(dir);
    const path = realpathSync(dir);
    if ((statSync(path).mode & 0o077) !== 0) {
      chmodSync(path, 0o700);
      log.warn("the storage folder was open to other users; its mode is 0700 now", { path });
    }
    return path;
  } catch (error) {
    throw new StartError(78, `the storage folder ${dir} cannot be used: ${codeOf(error) ?? String(error)}`, {
      cause: error,
    });
  }
}

/** A folder of ours is a real folder, not a link, and accessible only to us. */
function ownFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const stat = lstatSync(path);
  if (!stat.isDirectory()) throw new StartError(78, `${path} must be a folder, not a link or a file`);
  if ((stat.mode & 0o077) !== 0) chmodSync(path, 0o700);
  return path;
}

/** Says that the folder is of this format before anything is written that an older relay would misread. */
async function checkFormat(dir: string, temporary: string): Promise<void> {
  const path = join(dir, "format.json");
  const text = await readRegular(path);
  const format = text === undefined ? 1 : Number(/"format":\s*(\d+)/.exec(text)?.[1]);
  if (format === 1)
    await replaceFile(
      join(temporary, "format"),
      path,
      `${JSON.stringify({ storage: "filesystem", format: FORMAT })}\n`,
    );
  else if (format !== FORMAT)
    throw new StartError(78, `${path} names a format that this version cannot read (${format})`);
}
