/** A shelf read backwards. */
import type { Entry, Storage } from "../ports/storage.ts";

const PAGE = 100;

/** Every entry under a prefix, the last key first, page by page; behind `from` when that is given. */
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
