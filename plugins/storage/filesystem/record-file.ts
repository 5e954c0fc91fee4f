/** Reading one record's file, however it may have been harmed. */
import { lstatSync, readFileSync } from "node:fs";
import { codeOf, fault, readRegular } from "./disk.ts";
import { DamagedRecord, decodeRecord } from "./record.ts";

/** `undefined` when there is none; empty text for what cannot be a record. @throws StorageError */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return await readRegular(path);
  } catch (error) {
    // A link or a folder in a record's place: no record can be read from it.
    if (codeOf(error) === "ELOOP" || codeOf(error) === "EISDIR") return "";
    throw fault(error, "reading a record");
  }
}

/** The same without letting anything else run in between; only for what looks damaged. */
export function readNow(path: string): string | undefined {
  try {
    if (!lstatSync(path).isFile()) return "";
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw fault(error, "reading a record");
  }
}

/** `undefined` when the text is not the record of this key. */
export function valueOf(key: string, text: string): string | undefined {
  try {
    const record = decodeRecord(text);
    return record.key === key ? record.value : undefined;
  } catch (error) {
    if (error instanceof DamagedRecord) return undefined;
    throw error;
  }
}
