/** Notices what cannot be read while a storage is copied: a copy lacks it. */
import type { Storage } from "../ports/storage.ts";

type Asked = Pick<Storage, "status">;

const numberOf = (fact: unknown): number => (typeof fact === "number" ? fact : 0);

/** Returns how many files the storage has moved to quarantine, in earlier runs too. */
export async function quarantinedIn(storage: Asked): Promise<number> {
  return numberOf((await storage.status())["quarantined"]);
}

/**
 * Counts the files that went to quarantine meanwhile, and the items that cannot be read but stay where they are.
 * @returns what is lost, in words; undefined when the copy lacks nothing
 */
export async function lostSince(storage: Asked, before: number): Promise<string | undefined> {
  const { quarantined, unreadable } = await storage.status();
  const lost = numberOf(quarantined) - before + numberOf(unreadable);
  if (lost <= 0) return undefined;
  return lost === 1
    ? "1 file or item could not be read: the copy lacks its record, which the log names"
    : `${lost} files or items could not be read: the copy lacks their records, which the log names`;
}
