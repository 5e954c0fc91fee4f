/** Reads the current state of a delivery: its record, or its line in the due index, judged by its subscription. */
import type { Delivery, Due } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import { DELIVERY, DUE, type FanoutMember } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { readRecord, readTexts } from "./damage.ts";
import type { SubscriptionCache } from "./subscription-cache.ts";
import { disabledDelivery } from "./new-delivery.ts";
import type { Recipient } from "./recipients.ts";
import { freshDelivery } from "./delivery-records.ts";
import { asEnded } from "./ended-by.ts";

/**
 * Returns the current state. Until its first attempt has ended, a delivery has no record, only its line in the due
 * index. A pending delivery ends at once with its subscription; its record follows later.
 */
export function readDelivery(
  record: Delivery | undefined,
  event: Pick<RelayEvent, "id" | "keyId" | "ordinal" | "acceptedAt">,
  sub: Subscription | undefined,
  line: Due | undefined,
  subscriptionId: string,
  member?: Partial<FanoutMember>,
): Delivery {
  // A delivery of a wide event that is not written yet: it will be as the subscription was at acceptance.
  const unwritten = record === undefined && line === undefined;
  if (unwritten && member?.disabled === true)
    return disabledDelivery(event, { ...member, id: subscriptionId, generation: member.generation ?? 0 });
  const { id, keyId, ordinal, acceptedAt: dueAt } = event;
  const untried = { subscriptionId, keyId, ordinal, dueAt, cycle: 0, attempts: 0 };
  const delivery =
    record ??
    freshDelivery({ ...untried, generation: line?.generation ?? member?.generation ?? sub?.generation ?? 0 }, id);
  return asEnded(delivery, sub) ?? delivery;
}

export type WantedDelivery = Pick<RelayEvent, "id" | "keyId" | "ordinal" | "acceptedAt">;

interface Pair {
  readonly event: WantedDelivery;
  readonly sub: string;
  /** The subscription at acceptance, as far as that is known. */
  readonly member?: Partial<FanoutMember>;
}

export const pairOf =
  (event: WantedDelivery) =>
  (member: Recipient): Pair => ({ event, sub: member.id, member });

export type DeliveryReader = (pairs: readonly Pair[]) => Promise<readonly Delivery[]>;

/** Reads deliveries by (event, subscription), in the order asked for: first records, then the lines of those without one. */
export function createDeliveryReader(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany">;
  readonly subscriptionCache: SubscriptionCache;
}): DeliveryReader {
  const { storage, subscriptionCache } = deps;

  return async (pairs) => {
    const keys = pairs.map(({ event, sub }) => DELIVERY.key({ subscriptionId: sub, ordinal: event.ordinal }));
    const records = [...(await readTexts(storage, keys))];
    const bare = [...records.keys()].filter((i) => records[i] === undefined);
    const lineKeys = bare.map((i) => {
      const { event, sub } = pairs[i] as Pair;
      return DUE.key({ subscriptionId: sub, dueAt: event.acceptedAt, ordinal: event.ordinal });
    });
    const found = bare.length > 0 ? await readTexts(storage, lineKeys) : [];
    const lines = new Map<number, Due>();
    for (const [n, i] of bare.entries()) {
      const value = found[n];
      if (value !== undefined) lines.set(i, DUE.orThrow(value, lineKeys[n] as string));
    }
    // Neither found: the first attempt ended between the two reads, so now there is a record.
    const late = bare.filter((i) => !lines.has(i));
    if (late.length > 0) {
      const again = await readTexts(
        storage,
        late.map((i) => keys[i] as string),
      );
      for (const [n, i] of late.entries()) records[i] = again[n];
    }
    return Promise.all(
      pairs.map(async ({ event, sub, member }, i) => {
        const text = records[i];
        return readDelivery(
          text === undefined ? undefined : readRecord(text, event, sub),
          event,
          await subscriptionCache.get(event.keyId, sub),
          lines.get(i),
          sub,
          member,
        );
      }),
    );
  };
}
