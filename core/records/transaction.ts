/** Changes records on what was read of them: reads, decides, commits all or nothing, again while other commits come first. */
import { ConflictError, untilCommitted } from "../model/errors.ts";
import type { AnyPart, Damaged, IdOf, Kind } from "../model/kind.ts";
import { Problem } from "../model/problem.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { getText } from "./damage.ts";

/** Collects the changes of one commit. What was read is a condition of it only where it is also changed. */
export class Tx {
  readonly #storage: Pick<Storage, "getItem">;
  /** The texts that were read, by key; `null` where there was none. */
  readonly #was = new Map<string, string | null>();
  readonly changes: Change[] = [];

  constructor(storage: Pick<Storage, "getItem">) {
    this.#storage = storage;
  }
  /** @throws StorageError */
  async text(key: string): Promise<string | undefined> {
    const text = await getText(this.#storage, key);
    this.#was.set(key, text ?? null);
    return text;
  }
  /** @throws StorageError */
  async get<const P extends readonly AnyPart[], T>(kind: Kind<P, T>, id: IdOf<P>): Promise<T | Damaged | undefined> {
    const key = kind.key(id);
    return kind.read(await this.text(key), key);
  }
  put<const P extends readonly AnyPart[], T>(kind: Kind<P, T>, id: IdOf<P>, value: T): void {
    this.changes.push(kind.put(id, value, this.#was.get(kind.key(id))));
  }
  delete<const P extends readonly AnyPart[]>(kind: Kind<P, unknown>, id: IdOf<P>): void {
    this.changes.push(kind.delete(id, this.#was.get(kind.key(id)) ?? undefined));
  }
  /** Adds changes that have conditions of their own. */
  add(...changes: readonly Change[]): void {
    this.changes.push(...changes);
  }
}

/** @param work changes nothing itself, as it may be called again @throws Problem CONFLICT, StorageError */
export const transact = <T>(storage: Pick<Storage, "getItem" | "commit">, work: (tx: Tx) => Promise<T>): Promise<T> =>
  retryOnConflict(async () => {
    const tx = new Tx(storage);
    const result = await work(tx);
    if (tx.changes.length > 0) await storage.commit(tx.changes);
    return result;
  });

/** Repeats `step` while its commit is refused. @throws Problem CONFLICT when the races do not end */
export const retryOnConflict = <T>(step: () => Promise<T>): Promise<T> =>
  untilCommitted(step).catch((error: unknown) => {
    if (!(error instanceof ConflictError)) throw error;
    throw new Problem("CONFLICT", "Other changes to this subscription came first, too often. Send the request again.");
  });

/**
 * Commits on conditions that may no longer hold.
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
