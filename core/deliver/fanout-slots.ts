/**
 * Gives fan-outs slots of their own besides those of attempts. Writing a page uses the storage, not a connection, so
 * receivers that hold every slot of a key do not delay its fan-outs. A fan-out queue has no more under way than a
 * subscription may have.
 */
import { isFanoutLane } from "../model/keys.ts";
import type { Slot, Slots } from "./slots.ts";

/** Counts what is under way of each subscription, fan-out queues included. */
class Busy extends Map<string, number> {
  readonly #others: ReadonlyMap<string, number>;

  constructor(others: ReadonlyMap<string, number>) {
    super();
    this.#others = others;
  }

  override get(id: string): number | undefined {
    return isFanoutLane(id) ? super.get(id) : this.#others.get(id);
  }

  override *[Symbol.iterator](): MapIterator<[string, number]> {
    yield* this.#others;
    yield* super.entries();
  }
}

export function withFanouts(slots: Slots): Slots {
  const busy = new Busy(slots.busy);
  let watchers: (() => void)[] = [];
  let given = 0;

  function take(lane: string): Slot {
    busy.set(lane, (busy.get(lane) ?? 0) + 1);
    let open = true;
    return {
      toward() {},
      took() {},
      give() {
        if (!open) return;
        open = false;
        const left = (busy.get(lane) ?? 1) - 1;
        if (left > 0) busy.set(lane, left);
        else busy.delete(lane);
        given++;
        const told = watchers;
        watchers = [];
        for (const tell of told) tell();
      },
      giveEarly: () => false,
      stored() {},
    };
  }

  return {
    ...slots,
    busy,
    given: () => slots.given() + given,
    admit: (to) => (isFanoutLane(to.subscriptionId) ? take(to.subscriptionId) : slots.admit(to)),
    async freed(signal) {
      const { promise, resolve } = Promise.withResolvers<void>();
      watchers.push(resolve);
      await Promise.race([slots.freed(signal), promise]);
      watchers = watchers.filter((one) => one !== resolve);
    },
  };
}
