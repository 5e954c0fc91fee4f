/** Composes the live feed: changes of subscriptions reach it from the storage, whichever node made them. */
import { createFeed, type LiveFeed } from "../../history/live-feed.ts";
import { parseSubscriptionKey } from "../../model/keys.ts";
import type { Storage } from "../../ports/storage.ts";

export function watchedFeed(storage: Pick<Storage, "watch">): LiveFeed {
  const feed = createFeed();
  storage.watch((keys) => {
    for (const key of keys) {
      if (!key.startsWith("subscription:")) continue;
      const { keyId, id } = parseSubscriptionKey(key);
      feed.changed(keyId, id);
    }
  });
  return feed;
}
