/** Notices files that cannot be read while a storage is copied: a copy lacks the records in them. */
import type { Storage } from "../ports/storage.ts";

type Asked = Pick<Storage, "status">;

/** Returns how many files the storage has moved to quarantine, in earlier runs too. */
export async function quarantinedIn(storage: Asked): Promise<number> {
  const { quarantined } = await storage.status();
  return typeof quarantined === "number" ? quarantined : 0;
}

/** @returns how many more files are there than before, in words; undefined when the copy lacks nothing */
export async function lostSince(storage: Asked, before: number): Promise<string | undefined> {
  const files = (await quarantinedIn(storage)) - before;
  if (files <= 0) return undefined;
  return `${files === 1 ? "1 file" : `${files} files`} could not be read: the copy lacks the records in quarantine, which the log names`;
}
