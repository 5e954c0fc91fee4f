/** A folder as earlier versions of `filesystem()` left it: folders that begin with a key, and a journal with what they lack. */
import { hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeName } from "../../plugins/storage/embedded/key-names.ts";
import { groupBytes, headerLine } from "../../plugins/storage/unstorage/journal-lines.ts";
import { encodeRecord } from "../../plugins/storage/unstorage/record.ts";

const shortened = (name: string): string =>
  name.length <= 180 ? name : `${name.slice(0, 100)}=-${hash("sha256", name).slice(0, 40)}`;

/** Where the file of a key lies in a folder of keys from `from` on. */
export function oldPath(dir: string, key: string, from = ""): string {
  const colon = key.indexOf(":");
  const group = colon < 0 ? `bare+${encodeName(key)}` : encodeName(key.slice(0, colon));
  const leaf = from === "" ? "from" : `from+${encodeName(from)}`;
  return join(dir, "records", group, leaf, `${shortened(encodeName(key.slice(colon + 1)))}.json`);
}

export function putOld(dir: string, key: string, value: string, from?: string): void {
  const path = oldPath(dir, key, from);
  mkdirSync(join(path, ".."), { recursive: true, mode: 0o700 });
  writeFileSync(path, encodeRecord(key, value), { mode: 0o600 });
}

/**
 * @param perFolder records after which a folder ends and the next begins
 * @param late what only the journal has; a note of a split is one of its commits
 */
export function writeFormat1(
  dir: string,
  rows: Readonly<Record<string, string>>,
  perFolder: number,
  late: Parameters<typeof groupBytes>[0] = [],
): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  for (const name of ["records", "journal", "quarantine", "tmp"]) mkdirSync(join(dir, name), { mode: 0o700 });
  writeFileSync(join(dir, "format.json"), '{"storage":"filesystem","format":1}\n');
  const counts = new Map<string, { readonly count: number; readonly from: string }>();
  for (const key of Object.keys(rows).toSorted()) {
    const prefix = key.slice(0, key.indexOf(":") + 1);
    const { count, from } = counts.get(prefix) ?? { count: 0, from: "" };
    const begins = prefix !== "" && count > 0 && count % perFolder === 0 && key.length < 60;
    const next = begins ? key.slice(prefix.length) : from;
    counts.set(prefix, { count: count + 1, from: next });
    putOld(dir, key, rows[key] as string, next);
  }
  const journal = Buffer.concat([Buffer.from(headerLine(7)), groupBytes(late)]);
  writeFileSync(join(dir, "journal", "00000007.ndjson"), journal);
}
