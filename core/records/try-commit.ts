/** Commits on conditions that may no longer hold. */
import { ConflictError } from "../model/errors.ts";
import type { Change, Storage } from "../ports/storage.ts";

/**
 * @returns false, with nothing written, when a condition no longer holds
 * @throws StorageError
 */
export async function tryCommit(storage: Pick<Storage, "commit">, changes: readonly Change[]): Promise<boolean> {
  try {
    await storage.commit(changes);
    return true;
  } catch (error) {
    if (error instanceof ConflictError) return false;
    throw error;
  }
}
