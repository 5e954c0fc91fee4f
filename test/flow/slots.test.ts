import { describe, expect, it } from "vitest";
import * as path from "../../core/runtime/path.ts";
import { createSlots } from "../../core/flow/slots.ts";
import { holdSettles, replied, testPath } from "../support/path.ts";

describe("a slot", () => {
  it("may be given back before its result is stored, as often as there are slots of the subscription, and no more", () => {
    const slots = createSlots(8, 2);
    for (let i = 0; i < 2; i++) slots.take("sub_a");
    expect([slots.giveEarly("sub_a"), slots.giveEarly("sub_a")]).toEqual([true, true]);
    expect(slots.busy.get("sub_a")).toBeUndefined();
    slots.take("sub_a");
    expect(slots.giveEarly("sub_a")).toBe(false);
    expect(slots.busy.get("sub_a")).toBe(1);
    slots.stored("sub_a");
    expect(slots.giveEarly("sub_a")).toBe(true);
    expect(slots.free()).toBe(8);
  });

  it("is kept by any subscription while as many results as there are slots in all wait to be stored", () => {
    const slots = createSlots(2, 1);
    for (const id of ["sub_a", "sub_b", "sub_c"]) {
      slots.take(id);
      expect(slots.giveEarly(id)).toBe(id !== "sub_c");
    }
    expect(slots.free()).toBe(1);
  });
});

describe("the wire", () => {
  it("does not wait for the disk, but goes no further ahead of it than its slots", async () => {
    await using test = await testPath({ delivery: { perSubscription: 2 } });
    const stored = holdSettles(test.storage);
    await test.subscribe();
    await test.start();
    for (let i = 0; i < 10; i++) await test.publish();
    await test.whenSent(4);
    await test.clock.advance(100);
    // Two wait to be stored without a slot, two hold theirs until they are.
    expect(test.sent).toHaveLength(4);
    expect(test.get(path.DISPATCHER).underWay()).toBe(4);
    stored.letGo();
    await test.whenSent(10);
  });

  it("never carries more attempts of a subscription at once than it may", async () => {
    await using test = await testPath({ delivery: { perSubscription: 3 } });
    let now = 0;
    let most = 0;
    test.otherwise = async () => {
      most = Math.max(most, ++now);
      await new Promise((turned) => setImmediate(turned));
      now--;
      return replied(200);
    };
    await test.subscribe();
    await test.start();
    for (let i = 0; i < 40; i++) await test.publish();
    await test.whenSent(40);
    expect(most).toBe(3);
  });
});
