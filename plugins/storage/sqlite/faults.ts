/** Says what an error of SQLite means for the operator, and what to do. */
import type { StorageFault } from "../../../core/model/errors.ts";

const RESTORE = "stop the relay and restore a backup into a new folder (docs/operate-data.md)";

/** By SQLite's primary result code. */
const MEANINGS: Readonly<Record<number, readonly [fault: StorageFault, what: string]>> = {
  5: ["unavailable", "is locked by another program"],
  8: ["unavailable", "may not be written to"],
  10: ["unavailable", "cannot be read or written: the disk reports an error"],
  11: ["broken", `is damaged: ${RESTORE}`],
  13: ["full", "cannot grow: its disk is full"],
  14: ["unavailable", "cannot be opened"],
  26: ["broken", `is no database, or its first page is damaged: ${RESTORE}`],
};

/** @param path of the database */
export function faultOf(error: unknown, path: string): { readonly fault: StorageFault; readonly message: string } {
  const { errcode = 0, message = String(error) } = error as { readonly errcode?: number; readonly message?: string };
  const [fault, what] = MEANINGS[errcode & 0xff] ?? ["unavailable", `fails: ${message}`];
  return { fault, message: `sqlite: ${path} ${what}` };
}
