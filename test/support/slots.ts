/** A table of slots, with receivers whose answers take as long as the test says. */
import { Slots, type Slot } from "../../core/deliver/slots.ts";
import { testClock, type TestClock } from "./clock.ts";

export interface SlotTable {
  readonly slots: Slots;
  readonly clock: TestClock;
  /** Subscriptions that the queue was told to hold back no longer, in order. */
  readonly lifted: string[];
  /** A delivery that is claimed asks for a slot. */
  admit(subscriptionId: string, keyId?: string): Slot | number;
  /** Takes one that there must be, on its way to the origin of its subscription. */
  take(subscriptionId: string, keyId?: string, origin?: string): Slot;
  /** Makes it known that its attempts take so long. */
  known(subscriptionId: string, ms: number, keyId?: string, origin?: string): Promise<void>;
}

export function slotTable(total = 64, bound: number | "adapts" = 16): SlotTable {
  const clock = testClock();
  const lifted: string[] = [];
  const perSubscription = bound === "adapts" ? undefined : bound;
  const slots = new Slots({ total, perSubscription, clock, lift: (id) => void lifted.push(id) });
  const table: SlotTable = {
    ...{ slots, clock, lifted },
    admit: (subscriptionId, keyId = "key_1") => slots.admit({ subscriptionId, keyId }),
    take(subscriptionId, keyId, origin = "https://one.example") {
      const slot = table.admit(subscriptionId, keyId);
      if (typeof slot === "number") throw new Error(`${subscriptionId} has no slot: ${slot}`);
      slot.toward(`${origin}/hook`);
      return slot;
    },
    async known(subscriptionId, ms, keyId, origin) {
      const slot = table.take(subscriptionId, keyId, origin);
      await clock.advance(ms);
      slot.took(true);
      slot.give();
    },
  };
  return table;
}
