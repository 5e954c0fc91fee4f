/** Reads and changes what `accounts()` stores. */
import type { AuditEntry } from "../../../core/model/audit.ts";
import { untilCommitted } from "../../../core/model/errors.ts";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change, Entry } from "../../../core/ports/storage.ts";

const TRIES = 5;

interface Decision<T> {
  readonly changes: readonly Change[];
  readonly audit?: readonly AuditEntry[];
  readonly result: T;
}

/** Reads, decides and commits; starts over when another change came first, so that a code is used once even in a race. */
export const retryOnConflict = <T>(storage: ScopedStorage, decide: () => Promise<Decision<T>>): Promise<T> =>
  untilCommitted(async () => {
    const { changes, audit = [], result } = await decide();
    if (changes.length > 0) await storage.commit(changes, audit);
    return result;
  }, TRIES);

const PAGE = 500;

/** Yields every entry whose key begins so. */
export async function* everyEntry(storage: ScopedStorage, prefix: string): AsyncGenerator<Entry> {
  let after: string | undefined;
  for (;;) {
    const page = await storage.range(prefix, { limit: PAGE, ...(after !== undefined && { after }) });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.key;
  }
}
