/** Reads the entries of a prefix, page by page. */
import type { Entry, Storage } from "../ports/storage.ts";

const PAGE = 500;

/** Yields every entry of a prefix in key order. One that is written meanwhile may be missing. @throws StorageError */
export async function* everyEntry(storage: Pick<Storage, "range">, prefix: string): AsyncGenerator<Entry> {
  let after: string | undefined;
  for (;;) {
    const page = await storage.range(prefix, { after, limit: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.key;
  }
}
