import { describe, expect, it } from "vitest";
import type { Slot } from "../../core/deliver/slots.ts";
import { slotTable as table, type SlotTable } from "../support/slots.ts";
import { holdSettles, replied, testPath } from "../support/path.ts";

describe("a slot", () => {
  it("may be given back before its result is stored, as often as there are slots of the subscription, and no more", async () => {
    const { slots, take } = table(8, 2);
    const [one, two] = [take("a"), take("a")];
    expect([one.giveEarly(), two.giveEarly()]).toEqual([true, true]);
    expect(slots.busy.get("a")).toBeUndefined();
    const three = take("a");
    expect(three.giveEarly()).toBe(false);
    expect(slots.busy.get("a")).toBe(1);
    one.stored();
    expect(three.giveEarly()).toBe(true);
    expect(slots.free()).toBe(8);
  });

  it("is kept by any subscription while as many results as there are slots in all wait to be stored", async () => {
    const { slots, take } = table(2, 1);
    for (const id of ["a", "b", "c"]) expect(take(id).giveEarly()).toBe(id !== "c");
    expect(slots.free()).toBe(1);
  });
});

/** Takes what there is for many subscriptions, in turn, one each. */
function fill(table: SlotTable, ids: readonly string[], keyOf: (i: number) => string = () => "key_1"): Slot[] {
  const slots: Slot[] = [];
  for (const [i, id] of ids.entries()) {
    const slot = table.admit(id, keyOf(i));
    if (typeof slot === "number") continue;
    slot.toward(`https://${keyOf(i)}.example/hook`);
    slots.push(slot);
  }
  return slots;
}
const many = (name: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${name}${i}`);

describe("slots", () => {
  it("are all for one quick receiver when it is the only one", async () => {
    const made = table(64, 64);
    await made.known("quick", 5);
    for (let i = 0; i < 64; i++) made.take("quick");
    expect(made.slots.free()).toBe(0);
  });

  it("are four at a time for a receiver of which nothing is known yet", async () => {
    const made = table(64, 16);
    for (let i = 0; i < 4; i++) made.take("new");
    expect(made.admit("new")).toBe(0);
  });

  it("are not taken by a thousand new ones that hang, of one key or of many, and those get theirs in time", async () => {
    for (const keys of [1, 2, 200]) {
      const made = table(64, 16);
      await made.known("quick", 5, "key_q");
      const strangers = many("new", 1_000);
      let held: Slot[] = [];
      const served = new Set<Slot>();
      for (let second = 0; second < 60; second++) {
        held.push(...fill(made, strangers, (i) => `key_${i % keys}`));
        expect(held.length).toBeLessThanOrEqual(32);
        made.take("quick", "key_q").give();
        await made.clock.advance(1_000);
        if (second % 10 !== 9) continue;
        for (const slot of held) {
          slot.took(true);
          slot.give();
          served.add(slot);
        }
        held = [];
      }
      expect(served.size).toBeGreaterThan(100);
    }
  });

  it("are left free for a new key, and for a new origin, by those that hold the most", async () => {
    const made = table(64, 16);
    fill(made, many("crowd", 200));
    expect(typeof made.admit("stranger", "key_2")).toBe("object");
  });

  it("are left free for others by the quick ones of one key, whatever their origins, and of one origin, whatever their keys", async () => {
    const ids = many("quick", 20);
    for (const [keyOf, originOf] of [
      [() => "key_1", (i: number) => `https://${i}.example`],
      [(i: number) => `key_${i}`, () => "https://one.example"],
    ] as const) {
      const made = table(64, 16);
      for (const [i, id] of ids.entries()) await made.known(id, 5, keyOf(i), originOf(i));
      await made.known("other", 5, "key_other", "https://other.example");
      for (let round = 0; round < 16; round++) for (const [i, id] of ids.entries()) made.admit(id, keyOf(i));
      for (let n = 0; n < 4; n++) expect(typeof made.admit("other", "key_other")).toBe("object");
    }
  });

  it("count what was quick as slow once it is in flight for a second", async () => {
    const made = table(64, 16);
    for (const id of ["quick", "more"]) await made.known(id, 5, "key_q");
    for (const id of many("turned", 3)) await made.known(id, 5, "key_1", "https://turned.example");
    const ids = many("turned", 3).flatMap((id) => Array.from({ length: 16 }, () => id));
    expect(fill(made, ids).length).toBeGreaterThan(40);
    await made.clock.advance(1_000);
    made.take("quick", "key_q").give();
    // Known as slow now, and there are none for those.
    expect(made.admit("turned0", "key_1")).toBe(0);
    expect(made.admit("turned3", "key_1")).toBe(10_000);
    for (let i = 0; i < 10; i++) made.take("more", "key_q");
  });

  it("are promised to who waits, by what key and origin hold already, and to others when nobody comes for them", async () => {
    const made = table(16, 4);
    for (const id of many("slow", 30)) await made.known(id, 5_000, "key_1", "https://one.example");
    for (const [id, key] of [
      ["second", "key_2"],
      ["third", "key_3"],
    ] as const)
      await made.known(id, 5_000, key, `https://${id}.example`);
    const held = fill(made, many("slow", 30), () => "key_1");
    while (typeof made.admit("second", "key_2") === "object");
    expect(made.admit("third", "key_3")).toBe(10_000);
    expect(made.lifted).toEqual([]);
    held[0]?.give();
    expect(made.lifted).toEqual(["third"]);
    const free = made.slots.free();
    expect(made.admit("slow29")).toBe(10_000);
    // Nobody fetches it.
    await made.clock.advance(2_000);
    expect(made.admit("slow29")).toBe(10_000);
    expect(made.slots.free()).toBe(free);
    expect(made.lifted).toEqual(["third", "second"]);
  });

  it("are promised to a quick one that waits, once those that its key holds are in flight for a second", async () => {
    const made = table(64, 16);
    const holders = many("turned", 4);
    for (const id of [...holders, "late"]) await made.known(id, 5, "key_1", `https://${id}.example`);
    await made.known("other", 5, "key_2");
    for (const id of holders) for (let n = 0; n < 14; n++) made.take(id, "key_1", `https://${id}.example`);
    expect(made.admit("late")).toBe(100);
    await made.clock.advance(1_000);
    expect(made.lifted).toEqual([]);
    made.admit("other", "key_2");
    expect(made.lifted).toEqual(["late"]);
  });

  it("one that is promised can be claimed when there is no other", async () => {
    const made = table(1, 1);
    const held = made.take("a");
    expect(made.admit("b")).toBe(10_000);
    expect(made.slots.free()).toBe(0);
    held.give();
    expect(made.lifted).toEqual(["b"]);
    expect(made.slots.free()).toBe(1);
    expect(made.admit("c")).toBe(10_000);
    made.take("b").give();
    expect(made.lifted).toEqual(["b", "c"]);
  });
});

describe("requests in flight", () => {
  it("does not wait for the disk, but goes no further ahead of it than its slots", async () => {
    await using test = await testPath({ delivery: { perSubscription: 2 } });
    const stored = holdSettles(test.storage);
    await test.open();
    for (let i = 0; i < 10; i++) await test.publish();
    await test.whenSent(4);
    await test.clock.advance(100);
    // Two wait to be stored without a slot, two hold theirs until they are.
    expect(test.sent).toHaveLength(4);
    expect(test.parts.dispatcher.underWay()).toBe(4);
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
    await test.open();
    for (let i = 0; i < 40; i++) await test.publish();
    await test.whenSent(40);
    expect(most).toBe(3);
  });
});
