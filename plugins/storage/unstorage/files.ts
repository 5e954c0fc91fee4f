/** A driver of plain files, one an item, which a person can read. What `sync` has seen is on the disk. */
import { mkdir, readdir, rmdir, unlink } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import type { Driver } from "unstorage";
import { StorageError } from "../../../core/model/errors.ts";
import { syncFolderAsync } from "../../../core/ports/folder.ts";
import { codeOf, fault, pool, readRegular, replaceFile, unlessMissing } from "./disk.ts";
import { type ItemForm, itemKey, itemName } from "./items.ts";
import type { Quarantine } from "./quarantine.ts";
import { decodeRecord, encodeRecord } from "./record.ts";

export const RECORDS: ItemForm = {
  name: itemName,
  text: encodeRecord,
  value(key, item) {
    if (item === null) return undefined;
    const record = decodeRecord(item as string);
    if (record?.key === key) return record.value;
    throw new StorageError("broken", `the record ${key} cannot be read; its file was moved to quarantine`);
  },
};

// A key without a prefix has no folder name; `+` is none of a prefix.
function fileOf(root: string, name: string): string {
  const [prefix, ...rest] = name.slice(1, -".txt".length).split(":");
  return `${join(root, prefix || "+", ...rest)}.json`;
}

/** Returns `undefined` where the file is no item. */
function nameOf(root: string, path: string): string | undefined {
  const [prefix = "", ...rest] = path.slice(root.length + 1, -".json".length).split(sep);
  const name = `-${[prefix === "+" ? "" : prefix, ...rest].join(":")}.txt`;
  return path.endsWith(".json") && itemKey(name) !== undefined ? name : undefined;
}

/** Yields the names of all items in a folder, and moves away what is none. */
async function* listed(root: string, folder: string, quarantine: Quarantine): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw fault(error, "reading a folder of records");
  });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    // A folder inside the one of a prefix holds the end of long names.
    const goesOn = entry.isDirectory() && (folder === root || entry.name.endsWith("-"));
    const name = entry.isFile() ? nameOf(root, path) : undefined;
    if (goesOn) yield* listed(root, path, quarantine);
    else if (name === undefined) quarantine.move(path, "not a file of this storage");
    else yield name;
  }
}

export type FilesDriver = ReturnType<typeof filesDriver>;

/** Keeps the item `-event:k+1.txt` in the file `event/k+1.json` of `root`. */
export function filesDriver(root: string, temporary: string, quarantine: Quarantine) {
  /** Folders that are there, and whose names are durable, or will be by the next `sync`. */
  const known = new Set<string>([root]);
  /** Folders of which something changed since they were synced. */
  const touched = new Set<string>();
  /** Folders of long names from which something was removed. */
  const emptied = new Set<string>();
  let serial = 0;
  const pathOf = (name: string): string => fileOf(root, name);

  async function makeFolder(path: string): Promise<void> {
    if (known.has(path)) return;
    await makeFolder(dirname(path));
    await mkdir(path, { recursive: true, mode: 0o700 });
    // Also when it is there already: an earlier run may have died before it synced this.
    touched.add(dirname(path));
    known.add(path);
  }

  /** Makes the folder of an item, and returns where its file is, which is about to be put there. */
  async function pathFor(name: string): Promise<string> {
    const path = pathOf(name);
    await makeFolder(dirname(path));
    touched.add(dirname(path));
    return path;
  }

  return {
    name: "filesystem",
    hasItem: async (name: string) => (await readRegular(pathOf(name))) !== undefined,
    getItem: async (name: string) => (await readRegular(pathOf(name))) ?? null,
    getKeys: () => Array.fromAsync(listed(root, root, quarantine)),
    /** Moves an item away. Synchronous, so that nothing is put in its place meanwhile. */
    condemn: (name: string) => quarantine.move(pathOf(name), "a damaged record"),
    pathFor,
    async setItem(name: string, text: string): Promise<void> {
      try {
        await replaceFile(join(temporary, String(serial++)), await pathFor(name), text);
      } catch (error) {
        throw fault(error, "writing records");
      }
    },
    async removeItem(name: string): Promise<void> {
      const path = pathOf(name);
      await unlink(path).catch(unlessMissing);
      touched.add(dirname(path));
      if (dirname(path).endsWith("-")) emptied.add(dirname(path));
    },
    /** Makes durable what was put, removed or moved before. */
    async sync(): Promise<void> {
      try {
        for (const folder of emptied) {
          // Up to the folder of the prefix, as far as they are empty.
          for (let at = folder; at.endsWith("-") && dirname(at) !== root; at = dirname(at)) {
            if (await rmdir(at).catch((error: unknown) => codeOf(error) !== "ENOENT")) break;
            known.delete(at);
            touched.delete(at);
            touched.add(dirname(at));
          }
          emptied.delete(folder);
        }
        await pool([...touched], async (folder) => {
          await syncFolderAsync(folder).catch(unlessMissing);
          touched.delete(folder);
        });
      } catch (error) {
        throw fault(error, "writing records");
      }
    },
  } satisfies Driver & Record<string, unknown>;
}
