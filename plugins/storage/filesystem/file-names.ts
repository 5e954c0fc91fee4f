/** Where a key's file lies: which folder, which name, and back. */
import { hash } from "node:crypto";
import { decodeName, encodeName } from "../embedded/key-names.ts";

const LONGEST = 180;
const KEPT = 100;
const KEY = /^[ -~]{1,1024}$/;

/** @throws RangeError when the text cannot be a key */
export function assertKey(key: string): void {
  if (!KEY.test(key) || key.startsWith(":"))
    throw new RangeError("a key is 1 to 1024 characters of printable ASCII, and begins with no colon");
  groupFolder(groupOf(key));
}

/** Keys share a group when they share their first part; a key without `:` is a group of its own. A group is one run of the key order. */
export function groupOf(key: string): string {
  const colon = key.indexOf(":");
  return colon < 0 ? key : key.slice(0, colon + 1);
}

const fits = (name: string): boolean => name.length <= LONGEST;

/** The folder of a group: `event:` → `event`. */
export function groupFolder(group: string): string {
  const name = group.endsWith(":") ? encodeName(group.slice(0, -1)) : `bare+${encodeName(group)}`;
  if (!fits(name)) throw new RangeError("the first part of a key is too long");
  return name;
}

/** The group of a folder; `undefined` for a foreign one. */
export function folderGroup(folder: string): string | undefined {
  if (folder.startsWith("bare+")) return decodeName(folder.slice("bare+".length));
  const shelf = decodeName(folder);
  return shelf === undefined || shelf.includes(":") || shelf === "" ? undefined : `${shelf}:`;
}

const shortened = (name: string): string =>
  fits(name) ? name : `${name.slice(0, KEPT)}=-${hash("sha256", name).slice(0, 40)}`;

/** The file of a key within its group. Very long keys are cut and hashed: then only the file itself tells the key. */
export function fileName(key: string, group: string): string {
  return `${shortened(encodeName(group.endsWith(":") ? key.slice(group.length) : key))}.json`;
}

/** The key of a file; `"hashed"` where only the file tells; `undefined` for a foreign name. */
export function fileKey(name: string, group: string): string | undefined {
  if (!name.endsWith(".json")) return undefined;
  const stem = name.slice(0, -".json".length);
  if (stem.includes("=-")) return "hashed";
  const rest = decodeName(stem);
  if (rest === undefined) return undefined;
  return group.endsWith(":") ? group + rest : rest;
}

/** The folder that holds a group's keys from `from` on; `undefined` when its name would be too long to tell. */
export function leafFolder(from: string, group: string): string | undefined {
  if (from === group) return "from";
  const name = `from+${encodeName(from.slice(group.length))}`;
  return fits(name) ? name : undefined;
}

/** Where a leaf folder begins; `undefined` for a foreign one. */
export function leafFrom(folder: string, group: string): string | undefined {
  if (folder === "from") return group;
  if (!folder.startsWith("from+") || !group.endsWith(":")) return undefined;
  const rest = decodeName(folder.slice("from+".length));
  return rest === undefined || rest === "" ? undefined : group + rest;
}
