/** Reads the entries of a prefix, page by page. */
import type { Entry, Storage } from "../ports/storage.ts";

interface Walk {
  readonly after?: string;
  readonly reverse?: boolean;
  /** Entries of a page. @default 500 */
  readonly limit?: number;
}

/** Yields the pages of a prefix in key order. @throws StorageError */
export async function* everyPage(
  storage: Pick<Storage, "range">,
  prefix: string,
  { limit = 500, ...walk }: Walk = {},
): AsyncGenerator<readonly Entry[]> {
  for (let { after } = walk; ;) {
    const page: readonly Entry[] = await storage.range(prefix, { ...walk, after, limit });
    if (page.length > 0) yield page;
    if (page.length < limit) return;
    after = page.at(-1)?.key;
  }
}

/** Yields every entry of a prefix in key order. One that is written meanwhile may be missing. @throws StorageError */
export async function* everyEntry(storage: Pick<Storage, "range">, prefix: string, walk?: Walk): AsyncGenerator<Entry> {
  for await (const page of everyPage(storage, prefix, walk)) yield* page;
}
