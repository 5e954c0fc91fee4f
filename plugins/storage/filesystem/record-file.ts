/** Reads the file of one record, however it may be damaged. */
import { linkSync, lstatSync, readFileSync, unlinkSync } from "node:fs";
import { dirname } from "node:path";
import { syncFolder } from "../../../core/ports/folder.ts";
import { codeOf, fault, readRegular } from "./disk.ts";
import { DamagedRecord, decodeRecord } from "./record.ts";

/** Returns `undefined` when there is none; empty text for what cannot be a record. @throws StorageError */
export async function readRecordFile(path: string): Promise<string | undefined> {
  try {
    return await readRegular(path);
  } catch (error) {
    // A link or a folder in place of a record cannot be read as one.
    if (codeOf(error) === "ELOOP" || codeOf(error) === "EISDIR") return "";
    throw fault(error, "reading a record");
  }
}

/** Reads synchronously, so that nothing else runs in between; only for what looks damaged. */
export function readNow(path: string): string | undefined {
  try {
    if (!lstatSync(path).isFile()) return "";
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw fault(error, "reading a record");
  }
}

/** Returns `undefined` when the text is not the record of this key. */
export function valueOf(key: string, text: string): string | undefined {
  try {
    const record = decodeRecord(text);
    return record.key === key ? record.value : undefined;
  } catch (error) {
    if (error instanceof DamagedRecord) return undefined;
    throw error;
  }
}

/** Moves a complete record to its place, for good; false when it is damaged or the place is taken. @throws StorageError */
export function bringHome(path: string, key: string, home: string): boolean {
  if (valueOf(key, readNow(path) ?? "") === undefined) return false;
  try {
    // A link, unlike a rename, never replaces an existing file.
    linkSync(path, home);
    syncFolder(dirname(home));
    unlinkSync(path);
    syncFolder(dirname(path));
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw fault(error, "moving a record to its folder");
  }
}
