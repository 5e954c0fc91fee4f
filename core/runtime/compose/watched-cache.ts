/** Composes the cache of events: what is erased leaves it, whichever node erased it. */
import { createEventCache, type EventCache } from "../../deliver/event-cache.ts";
import { erasedAmong } from "../../records/erased-id.ts";
import type { Storage } from "../../ports/storage.ts";

export function watchedCache({ storage }: { readonly storage: Storage }): EventCache {
  const cache = createEventCache(storage);
  storage.watch((keys) => {
    const erased = erasedAmong(keys);
    if (erased === "all") cache.forget();
    else for (const ordinal of erased) cache.forget(ordinal);
  });
  return cache;
}
