/** Commits whose fate the storage could not tell, made sure of; and what a publisher is told when nothing can be stored. */
import { ConflictError, StorageError } from "../model/errors.ts";
import { Problem } from "../model/problem.ts";
import type { Change, Storage } from "../ports/storage.ts";

const RETRY_AFTER_S = 5;

/**
 * Commits new events, each on condition that it is not there. When the storage cannot tell whether it happened, it is
 * asked once more: if the first event is there, it happened.
 * @returns whether it happened just now; what happened a while ago may have been found by others, and have ended
 * @throws ConflictError, StorageError
 */
export function commitOnce(storage: Pick<Storage, "commit">, changes: readonly Change[]): Promise<boolean> {
  return storage.commit(changes).then(YES, (error: unknown) => madeSure(storage, changes, error));
}

const YES = (): boolean => true;

async function madeSure(
  storage: Pick<Storage, "commit">,
  changes: readonly Change[],
  error: unknown,
): Promise<boolean> {
  if (!(error instanceof StorageError) || error.fault !== "uncertain") throw error;
  const first = changes.find(({ op, key }) => op === "put" && key.startsWith("event:"));
  if (first === undefined) throw error;
  try {
    await storage.commit(changes);
    return true;
  } catch (second) {
    if (second instanceof ConflictError && second.keys.includes(first.key)) return false;
    // That the second try could not be made says nothing about the first.
    throw second instanceof StorageError && second.fault !== "broken" ? error : second;
  }
}

/** `broken` stays as it is: that is our fault, not a matter of waiting. */
export function storageProblem(error: StorageError): Problem | StorageError {
  const extras = { retryAfter: RETRY_AFTER_S };
  switch (error.fault) {
    case "full":
      return new Problem("STORAGE_FULL", "There is no space left; nothing was stored. Publish again later.", extras);
    case "unavailable":
      return new Problem("STORAGE_UNAVAILABLE", "Nothing was stored. Publish again later.", extras);
    case "uncertain":
      return new Problem(
        "STORAGE_UNAVAILABLE",
        "It may have been stored. Publish again with the same id or Idempotency-Key.",
        extras,
      );
    case "broken":
      return error;
  }
}
