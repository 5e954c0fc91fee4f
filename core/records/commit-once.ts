/** Commits new events exactly once, even when storage cannot tell, and turns its errors into answers. */
import { ConflictError, StorageError } from "../model/errors.ts";
import { Problem } from "../model/problem.ts";
import { EVENT } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";

const RETRY_AFTER_S = 5;

/** Changes for a commit of the caller's own. */
export interface Prepared {
  readonly changes: readonly Change[];
  /** Call it when the changes are committed. */
  committed(): void;
}

/**
 * Prepares an operational event for the subscriptions of one key; `undefined` when none of them wants it: then it is not
 * stored. Skips back-pressure and catalogue.
 * @throws StorageError
 */
export type PrepareEvent = (draft: {
  readonly keyId: string;
  readonly type: string;
  readonly data: unknown;
  /** Its own id. Without it the relay gives one. With it the commit fails where the key has an event of that id. */
  readonly id?: string;
}) => Promise<Prepared | undefined>;

/**
 * Commits new events, each on condition that it does not exist yet. When the storage cannot tell whether the commit
 * happened, it tries once more: if the first event exists by then, the commit happened.
 * @returns true when it happened just now; false when it may have happened earlier, so that others may have found its
 * events and ended their deliveries
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
  const first = changes.find(({ op, key }) => op === "put" && EVENT.has(key));
  if (first === undefined) throw error;
  try {
    await storage.commit(changes);
    return true;
  } catch (second) {
    if (second instanceof ConflictError && second.keys.includes(first.key)) return false;
    // A second try that could not be made says nothing about the first.
    throw second instanceof StorageError && second.fault !== "broken" ? error : second;
  }
}

const LATER = "Nothing was stored. Publish again later.";
const PROBLEMS = {
  full: ["STORAGE_FULL", `The storage has no space left. ${LATER}`],
  unavailable: ["STORAGE_UNAVAILABLE", `The storage does not answer. ${LATER}`],
  uncertain: [
    "STORAGE_UNAVAILABLE",
    "The events may have been stored. Publish again with the same id or Idempotency-Key.",
  ],
} as const;

/** Returns the Problem for a storage error. `broken` stays an error: it is our fault, and waiting does not help. */
export function storageProblem(error: StorageError): Problem | StorageError {
  if (error.fault === "broken") return error;
  const [code, detail] = PROBLEMS[error.fault];
  return new Problem(code, detail, { retryAfter: RETRY_AFTER_S });
}
