/** Maps a key to its folder and file name, and back. */
import { hash } from "node:crypto";
import { decodeName, encodeName } from "../embedded/key-names.ts";

const LONGEST = 180;
const KEPT = 100;
const KEY = /^[ -~]{1,1024}$/;

/** @throws RangeError when the text cannot be a key */
export function assertKey(key: string): void {
  if (!KEY.test(key) || key.startsWith(":"))
    throw new RangeError("a key must be 1 to 1024 characters of printable ASCII and must not begin with a colon");
  groupFolder(groupOf(key));
}

/**
 * Returns the group of a key. Keys with the same first part share a group; a key without `:` has a group of its own. A
 * group is one contiguous part of the key order.
 */
export function groupOf(key: string): string {
  const colon = key.indexOf(":");
  return colon < 0 ? key : key.slice(0, colon + 1);
}

const fits = (name: string): boolean => name.length <= LONGEST;

/** Returns the folder of a group: `event:` → `event`. */
export function groupFolder(group: string): string {
  const name = group.endsWith(":") ? encodeName(group.slice(0, -1)) : `bare+${encodeName(group)}`;
  if (!fits(name)) throw new RangeError("the first part of a key is too long");
  return name;
}

/** Returns the group of a folder; `undefined` for a foreign one. */
export function folderGroup(folder: string): string | undefined {
  if (folder.startsWith("bare+")) return decodeName(folder.slice("bare+".length));
  const prefix = decodeName(folder);
  return prefix === undefined || prefix.includes(":") || prefix === "" ? undefined : `${prefix}:`;
}

const shortened = (name: string): string =>
  fits(name) ? name : `${name.slice(0, KEPT)}=-${hash("sha256", name).slice(0, 40)}`;

/** Returns the file name of a key within its group. Very long keys are cut and hashed: then only the file contains the key. */
export function fileName(key: string, group: string): string {
  return `${shortened(encodeName(group.endsWith(":") ? key.slice(group.length) : key))}.json`;
}

/** Returns the key of a file; `"hashed"` where only the file contains it; `undefined` for a foreign name. */
export function fileKey(name: string, group: string): string | undefined {
  if (!name.endsWith(".json")) return undefined;
  const stem = name.slice(0, -".json".length);
  if (stem.includes("=-")) return "hashed";
  const rest = decodeName(stem);
  if (rest === undefined) return undefined;
  return group.endsWith(":") ? group + rest : rest;
}

/** Returns the folder for a group's keys from `from` on; `undefined` when its name would be too long. */
export function leafFolder(from: string, group: string): string | undefined {
  if (from === group) return "from";
  const name = `from+${encodeName(from.slice(group.length))}`;
  return fits(name) ? name : undefined;
}

/** Returns the first key of a leaf folder; `undefined` for a foreign one. */
export function leafFrom(folder: string, group: string): string | undefined {
  if (folder === "from") return group;
  if (!folder.startsWith("from+") || !group.endsWith(":")) return undefined;
  const rest = decodeName(folder.slice("from+".length));
  return rest === undefined || rest === "" ? undefined : group + rest;
}
