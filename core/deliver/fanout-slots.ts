/**
 * Gives fan-outs slots of their own besides those of attempts. Writing a page uses the storage, not a connection, so
 * receivers that hold every slot of a key do not delay its fan-outs. A fan-out queue has no more under way than a
 * subscription may have.
 */
import { isFanoutQueue } from "../model/schema.ts";
import type { Slot, Slots } from "./slots.ts";

/** Counts what is under way of each subscription, fan-out queues included. */
class Busy extends Map<string, number> {
  readonly #attempts: ReadonlyMap<string, number>;

  constructor(attempts: ReadonlyMap<string, number>) {
    super();
    this.#attempts = attempts;
  }

  override get(id: string): number | undefined {
    return isFanoutQueue(id) ? super.get(id) : this.#attempts.get(id);
  }

  override *[Symbol.iterator](): MapIterator<[string, number]> {
    yield* this.#attempts;
    yield* super.entries();
  }
}

export function withFanouts(slots: Slots): Slots {
  const busy = new Busy(slots.busy);
  let watchers: (() => void)[] = [];
  let given = 0;

  function take(queue: string): Slot {
    busy.set(queue, (busy.get(queue) ?? 0) + 1);
    let open = true;
    return {
      toward() {},
      took() {},
      give() {
        if (!open) return;
        open = false;
        const left = (busy.get(queue) ?? 1) - 1;
        if (left > 0) busy.set(queue, left);
        else busy.delete(queue);
        given++;
        const waiting = watchers;
        watchers = [];
        for (const wake of waiting) wake();
      },
      giveEarly: () => false,
      stored() {},
    };
  }

  return {
    ...slots,
    busy,
    given: () => slots.given() + given,
    admit: (to) => (isFanoutQueue(to.subscriptionId) ? take(to.subscriptionId) : slots.admit(to)),
    async freed(signal) {
      const { promise, resolve } = Promise.withResolvers<void>();
      watchers.push(resolve);
      await Promise.race([slots.freed(signal), promise]);
      watchers = watchers.filter((one) => one !== resolve);
    },
  };
}
