// Which of many waiting subscriptions is next: found without a look at each of them, and without forgetting any.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { newParty, newReceiverSpeed, learn, type ReceiverSpeed } from "../../core/deliver/receiver-speed.ts";
import { Rotation } from "../../core/deliver/rotation.ts";
import { SlotWaiters } from "../../core/deliver/slot-waiters.ts";

/** So many subscriptions of one key that wait, with attempts that take `ms`; without: nothing is known of them. */
function waiting(waiters: SlotWaiters<unknown>, name: string, count: number, ms?: number): ReceiverSpeed[] {
  const key = newParty();
  return Array.from({ length: count }, (_, i) => {
    const receiver = newReceiverSpeed(`${name}${i}`, key);
    if (ms !== undefined) learn(receiver, ms);
    waiters.name(receiver);
    return receiver;
  });
}

describe("subscriptions that wait for a slot", () => {
  it("are not all looked at for each slot, however many they are", () => {
    for (const ms of [undefined, 20, 5_000]) {
      const waiters = new SlotWaiters<unknown>();
      waiting(waiters, "a", 9_000, ms);
      waiting(waiters, "b", 500, ms);
      let looks = 0;
      waiters.next(() => ++looks < 0, true);
      expect(looks).toBeGreaterThan(100);
      expect(looks).toBeLessThanOrEqual(300);
    }
  });

  it("are next when their key holds less, however many of another key wait before them", () => {
    const waiters = new SlotWaiters<unknown>();
    const [first] = waiting(waiters, "flood", 9_000, 20);
    if (first !== undefined) first.key.held = 10;
    const [calm] = waiting(waiters, "calm", 1, 20);
    expect(waiters.next(() => true, false)?.receiver).toBe(calm);
  });

  it("are next when their attempts take less time, where their keys hold about as many slots", () => {
    const waiters = new SlotWaiters<unknown>();
    const [long] = waiting(waiters, "long", 1, 3_000) as [ReceiverSpeed];
    const [short] = waiting(waiters, "short", 1, 1_100) as [ReceiverSpeed];
    // By time it holds less than half as much, though it has one slot more.
    [long.key.slow, short.key.slow] = [3, 4];
    expect(waiters.next(() => true, true)?.receiver).toBe(short);
    short.key.slow = 12;
    expect(waiters.next(() => true, true)?.receiver).toBe(long);
  });

  it("are each found in time, even when only one of thousands fits", () => {
    const waiters = new SlotWaiters<unknown>();
    const all = [...waiting(waiters, "a", 4_000), ...waiting(waiters, "b", 300), ...waiting(waiters, "c", 10)];
    for (const wanted of [all[0], all[3_999], all[4_200], all[4_305]]) {
      let calls = 0;
      while (waiters.next((receiver) => receiver === wanted, true)?.receiver !== wanted) calls++;
      expect(calls).toBeLessThanOrEqual(4_000 / 85 + 1);
    }
  });

  it("are no longer found once they do not wait", () => {
    const waiters = new SlotWaiters<unknown>();
    const [one, two] = waiting(waiters, "a", 2, 20) as [ReceiverSpeed, ReceiverSpeed];
    waiters.unname(one);
    expect([one.waiting, waiters.next((receiver) => receiver === one, true)]).toEqual([false, undefined]);
    waiters.unname(two);
    expect(waiters.empty).toBe(true);
  });
});

describe("a rotation", () => {
  it("gives each value once in a round, whatever is added and deleted meanwhile", () => {
    const step = fc.oneof(
      fc.record({ add: fc.integer({ min: 0, max: 20 }) }),
      fc.record({ delete: fc.integer({ min: 0, max: 20 }) }),
      fc.constant("next" as const),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const rotation = new Rotation<number>();
        const held = new Set<number>();
        for (const one of steps) {
          if (one === "next") {
            const value = rotation.next();
            expect(value === undefined ? held.size === 0 : held.has(value)).toBe(true);
          } else if ("add" in one) {
            rotation.add(one.add);
            held.add(one.add);
          } else {
            rotation.delete(one.delete);
            held.delete(one.delete);
          }
          expect(rotation.size).toBe(held.size);
        }
        // Two rounds from anywhere hold each of them.
        const seen = new Set(Array.from({ length: 2 * held.size }, () => rotation.next()));
        expect(seen.size).toBe(held.size);
      }),
    );
  });
});
