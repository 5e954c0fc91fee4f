/** Reads the entries of a prefix backwards. */
import type { Entry, Storage } from "../ports/storage.ts";

const PAGE = 100;

/** Yields every entry of a prefix, the last key first, page by page; starts before `from` when it is given. */
export async function* newest(
  storage: Pick<Storage, "range">,
  prefix: string,
  from: string | undefined,
): AsyncGenerator<Entry> {
  let after = from;
  for (;;) {
    const page = await storage.range(prefix, { after, limit: PAGE, reverse: true });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.key;
  }
}
