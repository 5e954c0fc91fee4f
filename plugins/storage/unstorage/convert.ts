/**
 * Takes over the records of format 1, in which each prefix had folders that began with a key (`from+…`). Each file is moved
 * by itself and stays as it is, so a conversion that was cut off goes on where it ended.
 */
import { existsSync, readFileSync } from "node:fs";
import { readdir, rename, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { syncFolderAsync } from "../../../core/ports/folder.ts";
import { decodeName } from "../embedded/key-names.ts";
import { pool, readRegular } from "./disk.ts";
import type { FilesDriver } from "./files.ts";
import { itemKey, itemName } from "./items.ts";
import type { Quarantine } from "./quarantine.ts";
import { decodeRecord } from "./record.ts";

/** Moves all of `old` into the driver and removes it. Durable when it resolves. */
export async function convertRecords(old: string, driver: FilesDriver, quarantine: Quarantine): Promise<void> {
  if (!existsSync(old)) return;
  const begin = (folder: string): string => decodeName(folder.slice("from+".length)) ?? "";
  for (const group of await folders(old, quarantine)) {
    const leaves = await folders(join(old, group), quarantine);
    // Where a crash cut off a split and left a record twice, that in the later folder is the newer one.
    for (const leaf of leaves.toSorted((a, b) => (begin(a) < begin(b) ? 1 : -1))) {
      const path = join(old, group, leaf);
      await pool(await readdir(path), (file) => move(group, join(path, file), file));
      await driver.sync();
      await rmdir(path);
    }
    await rmdir(join(old, group));
  }
  await rmdir(old);
  await syncFolderAsync(dirname(old));

  async function move(group: string, path: string, file: string): Promise<void> {
    const usual = `-${group}:${file.slice(0, -".json".length)}.txt`;
    const name = file.endsWith(".json") && itemKey(usual) !== undefined ? usual : await nameInside(path);
    if (name === undefined) return quarantine.move(path, "not a file of this storage");
    const to = await driver.pathFor(name);
    if (!existsSync(to)) return rename(path, to);
    if (!readFileSync(path).equals(readFileSync(to))) return quarantine.move(path, "a record in the wrong folder");
    // A power cut may have brought it back.
    return unlink(path);
  }
}

/** Where the name of the file does not contain the key: long keys, and those without a prefix. */
async function nameInside(path: string): Promise<string | undefined> {
  const record = decodeRecord((await readRegular(path)) ?? "");
  return record && itemName(record.key);
}

async function folders(path: string, quarantine: Quarantine): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  for (const entry of entries)
    if (!entry.isDirectory()) quarantine.move(join(path, entry.name), "not a folder of this storage");
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
