/** One folder of records: what is known of it, and what lies in it. */
import { opendirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readRegular } from "./disk.ts";
import { fileKey } from "./file-names.ts";
import { decodeRecord } from "./record.ts";

export interface Leaf {
  readonly group: string;
  readonly from: string;
  readonly path: string;
  /** Keys of its files, in order; `undefined` while nobody has asked. */
  keys: string[] | undefined;
  loading: Promise<string[]> | undefined;
  /** Counts changes made while it was not loaded. */
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

/** What lies in the folder; the key is `undefined` where it is no record of ours. */
export async function list(of: Leaf): Promise<{ readonly path: string; readonly key: string | undefined }[]> {
  const found = [];
  for (const entry of await readdir(of.path, { withFileTypes: true })) {
    const path = join(of.path, entry.name);
    const key = entry.isFile() ? fileKey(entry.name, of.group) : undefined;
    found.push({ path, key: key === "hashed" ? await keyInside(path) : key });
  }
  return found;
}

/** The key of a file whose name was too long to tell it; `undefined` for a damaged one. */
async function keyInside(path: string): Promise<string | undefined> {
  try {
    const text = await readRegular(path);
    return text === undefined ? undefined : decodeRecord(text).key;
  } catch {
    return undefined;
  }
}

/** The shortest text behind `before` and not behind `key`: a short name for the folder that begins with `key`. */
export function separator(before: string, key: string): string {
  let common = 0;
  while (common < before.length && before[common] === key[common]) common++;
  return key.slice(0, common + 1);
}

/** Whether nothing lies in the folder; reads one name of it. */
export function isEmptyLeaf(path: string): boolean {
  const folder = opendirSync(path);
  try {
    return folder.readSync() === null;
  } finally {
    folder.closeSync();
  }
}
