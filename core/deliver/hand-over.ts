/**
 * Hands deliveries over once their lines are stored: straight to this node if nobody waits before them, else in line.
 * Straight means without a claim and without reading: its lease is taken and its event is in hand. A crash costs nothing,
 * because the line is in storage either way.
 */
import type { Due } from "../model/delivery.ts";
import { deliveryCount, type RelayEvent } from "../model/event.ts";
import type { Queue } from "../ports/storage.ts";
import type { CachedEvent, EventCache } from "./event-cache.ts";
import type { Slots } from "./slots.ts";
import type { UnderWay } from "./under-way.ts";

/** Where deliveries go straight to. */
interface Straight {
  readonly slots: Pick<Slots, "tryTake">;
  readonly underWay: Pick<UnderWay, "take" | "begin">;
}

export type HandOver = ReturnType<typeof createHandOver>;

/** The events of one offer, with the number of their deliveries that have not gone straight. */
interface Handed {
  readonly loaded: CachedEvent;
  left: number;
}

export function createHandOver(deps: {
  readonly queue: Pick<Queue, "add" | "lend" | "release">;
  readonly eventCache: Pick<EventCache, "put" | "forgotten">;
}) {
  const { queue, eventCache } = deps;
  let straight: Straight | undefined;

  /** @returns false when the line is still to be added to the queue */
  function goesStraight(due: Due, one: Handed | undefined): boolean {
    // The fan-out of a wide event waits for its turn.
    if (straight === undefined || one === undefined || one.loaded.event.wide !== undefined) return false;
    // The queue refuses while any line waits that may be claimed, so this passes nobody.
    const lease = queue.lend?.(due);
    if (lease === undefined) return false;
    const slot = straight.slots.tryTake(lease);
    if (slot === undefined) {
      // So it is in line.
      void queue.release(lease);
      return true;
    }
    one.left--;
    straight.underWay.take(lease, slot, one.loaded);
    straight.underWay.begin();
    return true;
  }

  return {
    /** Hands over the due lines of events that were committed just now. */
    offer(events: readonly RelayEvent[], dues: readonly Due[]): void {
      const handed = new Map<string, Handed>();
      const seen = eventCache.forgotten;
      for (const event of events) {
        const left = deliveryCount(event);
        if (left === 0) continue;
        handed.set(event.ordinal, { loaded: { event, body: Buffer.from(event.body, "utf8"), seen }, left });
      }
      if (straight === undefined || queue.lend === undefined) queue.add(dues);
      // One by one: what goes in line is there before the next is offered.
      else for (const due of dues) if (!goesStraight(due, handed.get(due.ordinal))) queue.add([due]);
      for (const { loaded, left } of handed.values()) if (left > 0) eventCache.put(loaded.event, loaded.body);
    },
    /** From now on deliveries go straight; without `to` all of them go in line, as at first. */
    open(to?: Straight): void {
      straight = to;
    },
  };
}
