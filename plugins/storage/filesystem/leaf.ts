/** One folder of records and the keys in it. */
import { opendirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fault } from "./disk.ts";
import { fileKey } from "./file-names.ts";
import { readRecordFile } from "./record-file.ts";
import { DamagedRecord, decodeRecord } from "./record.ts";

export interface Leaf {
  readonly group: string;
  readonly from: string;
  readonly path: string;
  /** Keys of its files, in order; `undefined` until they are needed. */
  keys: string[] | undefined;
  loading: Promise<string[]> | undefined;
  /** Counts changes made while the keys were not loaded. */
  epoch: number;
}

export const newLeaf = (group: string, from: string, path: string): Leaf => ({
  group,
  from,
  path,
  keys: undefined,
  loading: undefined,
  epoch: 0,
});

/** Lists the folder; the key is `undefined` where a file is no record of ours. @throws StorageError */
export async function list(of: Leaf): Promise<{ readonly path: string; readonly key: string | undefined }[]> {
  const found = [];
  const entries = await readdir(of.path, { withFileTypes: true }).catch((error: unknown) => {
    throw fault(error, "reading a folder of records");
  });
  for (const entry of entries) {
    const path = join(of.path, entry.name);
    const key = entry.isFile() ? fileKey(entry.name, of.group) : undefined;
    found.push({ path, key: key === "hashed" ? await keyInside(path) : key });
  }
  return found;
}

/**
 * Returns the key of a file whose name was too long for it; `undefined` for a damaged one.
 * @throws StorageError when it cannot be read now: it may be a good record, and must not be moved away
 */
async function keyInside(path: string): Promise<string | undefined> {
  const text = await readRecordFile(path);
  if (text === undefined) return undefined;
  try {
    return decodeRecord(text).key;
  } catch (error) {
    if (error instanceof DamagedRecord) return undefined;
    throw error;
  }
}

/** Returns the shortest text after `before` and not after `key`: a short name for the folder that begins with `key`. */
export function separator(before: string, key: string): string {
  let common = 0;
  while (common < before.length && before[common] === key[common]) common++;
  return key.slice(0, common + 1);
}

/** Whether the folder is empty; reads one name of it. */
export function isEmptyLeaf(path: string): boolean {
  const folder = opendirSync(path);
  try {
    return folder.readSync() === null;
  } finally {
    folder.closeSync();
  }
}
