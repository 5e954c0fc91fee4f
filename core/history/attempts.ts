/** Reads the attempts of one delivery over all its cycles, newest first, in pages. */
import type { Attempt } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import { unlessDamaged } from "../model/kind.ts";
import { ATTEMPTS } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { locateEvent } from "../records/find-event.ts";
import { createDeliveryReader } from "../records/delivery-view.ts";
import type { Recipients } from "../records/recipients.ts";

interface AttemptPage {
  readonly delivery: Delivery;
  readonly attempts: readonly Attempt[];
  /** The cycle before which the next page begins; absent on the last page. */
  readonly next?: number;
}

export interface AttemptHistory {
  /**
   * Returns whole cycles, until there are `limit` attempts.
   * @param before only cycles before this one
   * @returns `undefined` when the event does not exist or has no delivery for the subscription
   */
  page(
    keyId: string,
    eventId: string,
    subscriptionId: string,
    request: { readonly before: number | undefined; readonly limit: number },
  ): Promise<AttemptPage | undefined>;
}

export function createAttemptHistory(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Pick<Recipients, "has">;
}): AttemptHistory {
  const { storage, recipients } = deps;
  const read = createDeliveryReader(deps);
  return {
    async page(keyId, eventId, subscriptionId, { before, limit }) {
      const event = (await locateEvent(storage, keyId, eventId))?.event;
      if (event === undefined || !(await recipients.has(event, subscriptionId))) return undefined;
      const [delivery] = await read([{ event, sub: subscriptionId }]);
      if (delivery === undefined) return undefined;
      const { ordinal, cycle } = delivery;
      const attempts: Attempt[] = before === undefined || before > cycle ? delivery.attempts.toReversed() : [];
      let last = Math.min(before ?? cycle, cycle);
      if (attempts.length < limit && last > 0) {
        const after = ATTEMPTS.key({ subscriptionId, ordinal, cycle: last });
        const rows = await storage.range(ATTEMPTS.under({ subscriptionId, ordinal }), { after, reverse: true, limit });
        if (rows.length === 0) last = 0;
        for (const { key, value } of rows) {
          attempts.push(...(unlessDamaged(ATTEMPTS.read(value, key))?.attempts ?? []).toReversed());
          last = ATTEMPTS.id(key).cycle;
          if (attempts.length >= limit) break;
        }
      }
      return { delivery, attempts, ...(last > 0 && { next: last }) };
    },
  };
}
