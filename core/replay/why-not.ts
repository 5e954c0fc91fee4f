/** Says why a replay found nothing to send, and what to do instead. */
import type { RelayEvent } from "../model/event.ts";
import { noSuch, Problem } from "../model/problem.ts";
import { isLive, wants } from "../model/subscription.ts";
import type { Storage } from "../ports/storage.ts";
import { locateEvent } from "../records/find-event.ts";
import type { Recipients } from "../records/recipients.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { readCurrent } from "./current-delivery.ts";

type WhyNot = (
  event: RelayEvent,
  asked: { readonly force?: boolean; readonly subscriptionId?: string },
) => Promise<Problem>;

export function createWhyNot(deps: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range">;
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients: Recipients;
}): WhyNot {
  const { storage, subscriptionCache, recipients } = deps;

  async function ofOne(event: RelayEvent, id: string): Promise<string | undefined> {
    const sub = await subscriptionCache.get(event.keyId, id);
    if (!isLive(sub) || sub.status !== "active") return "The subscription is not active. Enable it, and replay then.";
    if (!(await recipients.has(event, id)))
      return wants(sub, event.type) ? undefined : "The subscription does not want events of this type.";
    switch ((await readCurrent(storage, event, id))?.delivery.status) {
      case "delivered":
        return "Its delivery is delivered. Use force to send it again.";
      case "pending":
        return "Its delivery is pending: make its next attempt now, or cancel it.";
      default:
        return undefined;
    }
  }

  return async (event, { force = false, subscriptionId }) => {
    // Erased meanwhile.
    if ((await locateEvent(storage, event.keyId, event.id)) === undefined) return noSuch("event");
    const one = subscriptionId === undefined ? undefined : await ofOne(event, subscriptionId);
    return new Problem("NOT_REPLAYABLE", one ?? (force ? NONE_ENDED : NONE_FAILED));
  };
}

const NONE_ENDED =
  "No delivery of this event to an active subscription has ended. Make the next attempt of pending ones now.";
const NONE_FAILED =
  "No delivery of this event to an active subscription has failed. Use force for delivered and cancelled ones.";
