/** Composes the collector of statistics: what waits for its turn counts as pending too, which only ordered subscriptions have. */
import { seldom } from "../../model/seldom.ts";
import { countWaiting } from "../../records/sequence-rows.ts";
import type { SubscriptionCache } from "../../records/subscription-cache.ts";
import { createStatsCollector, type StatsCollector, type StatsDeps } from "../../stats/collect.ts";
import type { Storage } from "../../ports/storage.ts";

export function collectedStats({
  subscriptionCache,
  ...deps
}: StatsDeps & {
  readonly storage: Pick<Storage, "getMany">;
  readonly subscriptionCache: Pick<SubscriptionCache, "get">;
}): StatsCollector {
  const waitingInAll = seldom(() => countWaiting(deps.storage), deps.clock);
  return createStatsCollector({
    ...deps,
    async waiting(keyId, id) {
      if (keyId === undefined || id === undefined) return await waitingInAll();
      const ordered = (await subscriptionCache.get(keyId, id))?.ordered === true;
      return ordered ? await countWaiting(deps.storage, keyId, id) : 0;
    },
  });
}
