/** Encodes records as items of a driver: keys that no driver changes, values that no driver takes for something else. */
import { crc32 } from "node:zlib";
import type { Driver } from "unstorage";
import { StorageError } from "../../../core/model/errors.ts";
import { decodeName, encodeName } from "../embedded/key-names.ts";

/** Longest part of a name, for drivers that make a file of it. */
const PART = 120;
const SUFFIX = ".txt";
/** The journal's item. It has no key prefix, so no record has this name. */
export const JOURNAL = `relaybox-journal${SUFFIX}`;

/**
 * Encodes a key as a name. Drivers fold `/`, `\` and `:`, drop `?…`, and keep case or not, so only safe names go in. A
 * name is the key prefix and the rest, cut into parts that end with `-` except the last, so that none is both a folder
 * and a file.
 */
export function itemName(key: string): string {
  const colon = key.indexOf(":");
  const prefix = colon < 0 ? "-" : `-${encodeName(key.slice(0, colon))}`;
  let rest = encodeName(key.slice(colon + 1));
  let name = prefix;
  for (; rest.length > PART; rest = rest.slice(PART)) name += `:${rest.slice(0, PART)}-`;
  return `${name}:${rest}${SUFFIX}`;
}

/** Returns `undefined` for items that are not the relay's. */
export function itemKey(listed: string): string | undefined {
  // Drivers list names in their own way: with slashes, where they are paths.
  const name = listed.replace(/[/\\]/g, ":");
  const [prefix, ...parts] = name.split(":");
  const last = parts.pop();
  if (prefix === undefined || !prefix.startsWith("-") || last === undefined || !last.endsWith(SUFFIX)) return undefined;
  const rest = decodeName(parts.map((part) => part.slice(0, -1)).join("") + last.slice(0, -SUFFIX.length));
  const first = decodeName(prefix.slice(1));
  if (rest === undefined || first === undefined) return undefined;
  const key = prefix === "-" ? rest : `${first}:${rest}`;
  return itemName(key) === name ? key : undefined;
}

const HEAD = "relay ";

/** Encodes a value: a word first, so that no driver parses it as JSON, and a checksum, which shows a torn one. */
export function itemText(value: string): string {
  const text = value.isWellFormed() ? `t${value}` : `j${JSON.stringify(value)}`;
  return `${HEAD}${crc32(text).toString(16).padStart(8, "0")} ${text}`;
}

/** @throws StorageError `broken` when it is not what was written */
export function itemValue(item: unknown, name: string): string | undefined {
  if (item === null || item === undefined) return undefined;
  const whole = item instanceof Uint8Array ? Buffer.from(item).toString("utf8") : item;
  if (typeof whole === "string" && whole.startsWith(HEAD)) {
    const text = whole.slice(HEAD.length + 9);
    if (crc32(text).toString(16).padStart(8, "0") === whole.slice(HEAD.length, HEAD.length + 8)) {
      return text.startsWith("j") ? (JSON.parse(text.slice(1)) as string) : text.slice(1);
    }
  }
  throw new StorageError("broken", `the item ${name} is not what was written`);
}

/** How a store keeps its records in a driver. */
export interface ItemForm {
  name(key: string): string;
  text(key: string, value: string): string;
  /** @throws StorageError `broken` when the item is not what was written */
  value(key: string, item: unknown): string | undefined;
}

export const ITEMS: ItemForm = {
  name: itemName,
  text: (_, value) => itemText(value),
  value: (key, item) => itemValue(item, itemName(key)),
};

/** @throws StorageError `unavailable` when the driver cannot read */
export async function get(driver: Driver, name: string): Promise<unknown> {
  try {
    return await driver.getItem(name, {});
  } catch (error) {
    throw error instanceof StorageError
      ? error
      : new StorageError("unavailable", "the driver cannot read", { cause: error });
  }
}
export const put = async (driver: Driver, name: string, text: string): Promise<void> =>
  driver.setItem?.(name, text, {});
export const drop = async (driver: Driver, name: string): Promise<void> => driver.removeItem?.(name, {});

/** Calls `add` with the key of every item. @returns how many items are not the relay's */
export async function listKeys(driver: Driver, add: (key: string) => void): Promise<number> {
  let foreign = 0;
  for (const name of await driver.getKeys("", {})) {
    const key = itemKey(name);
    if (key !== undefined) add(key);
    else if (name !== JOURNAL) foreign++;
  }
  return foreign;
}
