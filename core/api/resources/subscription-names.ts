/** Names the subscriptions of an answer as people call them, beside their ids. */
import { z } from "zod";
import type { Subscription } from "../../model/subscription.ts";
import type { SubscriptionCache } from "../../subscriptions/subscriptions.ts";

const NAME = "What people call the subscription: its description, or else the host of its URL.";
export const subscriptionName = z.string().optional().meta({ description: NAME });

/** Its description, or else the host that it sends to. */
function nameOf({ description, url }: Subscription): string {
  return description ?? (URL.canParse(url) ? new URL(url).host : url);
}

/** Returns the name of each that is known, also of a deleted one. */
export async function namesOf(
  cache: Pick<SubscriptionCache, "get">,
  keyId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const id of new Set(ids)) {
    const found = await cache.get(keyId, id);
    if (found !== undefined) names.set(id, nameOf(found));
  }
  return names;
}
