// How many slots a subscription has: as many as its receiver keeps up with, and nobody pays for it.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Slot } from "../../core/deliver/slots.ts";
import { replied, testPath } from "../support/path.ts";
import { slotTable, type SlotTable } from "../support/slots.ts";

/** Takes for a subscription what claims would find, at most `due`. */
function claim({ slots, admit }: SlotTable, id: string, due: number, key = id): Slot[] {
  const taken: Slot[] = [];
  for (;;) {
    const found = Math.min(due - taken.length, slots.perSubscription - (slots.busy.get(id) ?? 0));
    for (let n = 0; n < found; n++) {
      const slot = admit(id, key);
      if (typeof slot === "number") return taken;
      slot.toward(`https://${id}.example/hook`);
      taken.push(slot);
    }
    if (found <= 0) return taken;
  }
}

function answer(slots: readonly Slot[], well = true): void {
  for (const slot of slots) {
    slot.took(well);
    slot.give();
  }
}

/** Round trips with a backlog. @returns how many attempts were under way in each */
async function roundTrips(made: SlotTable, ms: readonly number[], well = true, due = 10_000): Promise<number[]> {
  const most: number[] = [];
  for (const one of ms) {
    const open = claim(made, "one", due);
    most.push(open.length);
    await made.clock.advance(one);
    answer(open, well);
  }
  return most;
}
const times = (count: number, ms: number): number[] => Array.from({ length: count }, () => ms);

describe("the slots of one subscription", () => {
  it("double with each round trip of a quick receiver, from sixteen to half of all", async () => {
    for (const ms of [1, 50, 200, 900])
      expect(await roundTrips(slotTable(512, "adapts"), times(8, ms))).toEqual([4, 16, 32, 64, 128, 256, 256, 256]);
  });

  it("reach what is due within a few round trips, whatever it is, and answers come one by one or together", async () => {
    const property = fc.asyncProperty(
      fc.integer({ min: 1, max: 256 }),
      fc.integer({ min: 1, max: 40 }),
      async (due, part) => {
        const made = slotTable(512, "adapts");
        const open = claim(made, "one", due);
        for (let round = 0; round < 6; round++) {
          await made.clock.advance(50);
          for (let left = open.length; left > 0; left -= part) {
            answer(open.splice(0, Math.min(part, left)));
            open.push(...claim(made, "one", due - open.length));
          }
        }
        expect(open).toHaveLength(due);
      },
    );
    await fc.assert(property, { numRuns: 30 });
  });

  it("stay at sixteen where no more are due at once", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(20, 20), true, 15);
    expect(claim(made, "one", 100)).toHaveLength(16);
  });

  it("do not grow while the receiver errs, or takes a second", async () => {
    expect(Math.max(...(await roundTrips(slotTable(512, "adapts"), times(20, 50), false)))).toBe(16);
    expect(Math.max(...(await roundTrips(slotTable(512, "adapts"), times(20, 1_500))))).toBe(16);
  });

  it("are fewer after errors, by an eighth a round trip", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(8, 20));
    const fewer = await roundTrips(made, times(40, 20), false);
    expect(Math.min(...fewer.slice(1).map((one, i) => one / (fewer[i] as number)))).toBeGreaterThan(0.84);
    expect(fewer.at(-1)).toBe(16);
    expect((await roundTrips(made, times(8, 20))).at(-1)).toBe(256);
  });

  it("are fewer while answers come late for this receiver, by half a round trip at most", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(8, 20));
    const fewer = await roundTrips(made, times(6, 200));
    expect(Math.min(...fewer.slice(1).map((one, i) => one / (fewer[i] as number)))).toBeGreaterThan(0.45);
    expect(Math.min(...fewer)).toBe(16);
  });

  it("are as many as before soon after a receiver became slower for good", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(8, 2));
    expect((await roundTrips(made, times(12, 200))).at(-1)).toBe(256);
  });

  it("are at most four times as many as at first for a receiver that more at once only make slower", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(1, 20));
    let most = 0;
    for (let round = 0; round < 100; round++) {
      const open = claim(made, "one", 10_000);
      most = Math.max(most, open.length);
      await made.clock.advance(20 * open.length);
      answer(open);
    }
    expect(most).toBeLessThanOrEqual(64);
  });

  it("are as many as one error in a hundred leaves, which is most", async () => {
    const made = slotTable(512, "adapts");
    let n = 0;
    let open: Slot[] = [];
    let all = 0;
    for (let round = 0; round < 200; round++) {
      open = claim(made, "one", 10_000);
      if (round >= 100) all += open.length;
      await made.clock.advance(50);
      for (const slot of open) answer([slot], ++n % 100 !== 0);
    }
    expect(all / 100).toBeGreaterThan(100);
  });

  it("are a fair share of all where several keep up with more", async () => {
    for (const count of [2, 3, 7]) {
      const made = slotTable(512, "adapts");
      const ids = Array.from({ length: count }, (_, i) => `quick${i}`);
      let open: Slot[][] = [];
      for (let round = 0; round < 12; round++) {
        open = ids.map(() => []);
        // In turn, as a claim takes them.
        for (let pass = 0; pass < 40; pass++)
          for (const [i, id] of ids.entries()) (open[i] as Slot[]).push(...claim(made, id, 10));
        await made.clock.advance(50);
        if (round < 11) for (const slots of open) answer(slots);
      }
      for (const { length } of open) expect(Math.abs(length - 512 / (count + 1))).toBeLessThanOrEqual(10);
      expect(made.slots.free()).toBeGreaterThan(0);
    }
  });

  it("bound how many results wait to be stored without one", async () => {
    const made = slotTable(512, "adapts");
    await roundTrips(made, times(6, 50));
    const early = claim(made, "one", 200).filter((slot) => slot.giveEarly());
    expect(early).toHaveLength(200);
    expect(claim(made, "one", 200).filter((slot) => slot.giveEarly())).toHaveLength(56);
  });

  it("are as many as the config says where it says so", async () => {
    expect(await roundTrips(slotTable(512, 40), times(4, 5))).toEqual([4, 40, 40, 40]);
  });
});

describe("a slot that is taken at once", () => {
  const to = (subscriptionId: string) => ({ subscriptionId, keyId: "key_1" });

  it("is there for a quick receiver below its bound, and for one that is not known yet", async () => {
    const { slots, known } = slotTable(64);
    expect(slots.isQuick("quick")).toBe(false);
    await known("quick", 5);
    expect(slots.isQuick("quick")).toBe(true);
    await known("slow", 5_000);
    expect(slots.isQuick("slow")).toBe(false);
    for (let n = 0; n < 16; n++) expect(slots.tryTake(to("quick"))).toBeDefined();
    expect(slots.tryTake(to("quick"))).toBeUndefined();
    for (let n = 0; n < 4; n++) expect(slots.tryTake(to("new"))).toBeDefined();
    expect(slots.tryTake(to("new"))).toBeUndefined();
  });

  it("passes by no quick one that waits, and is not one that is promised to what was claimed", async () => {
    const made = slotTable(8, 8);
    await made.known("quick", 5);
    await made.known("other", 5, "key_2");
    const held = Array.from({ length: 7 }, () => made.take("quick"));
    // The last one is for other keys.
    expect(made.admit("quick")).toBe(100);
    const other = { subscriptionId: "other", keyId: "key_2" };
    expect(made.slots.tryTake(other)).toBeUndefined();
    held.pop()?.give();
    expect(made.lifted).toEqual(["quick"]);
    expect(made.slots.tryTake(to("quick"))).toBeUndefined();
    expect(made.slots.tryTake(other)).toBeDefined();
    expect(typeof made.admit("quick")).toBe("object");
  });

  it("passes by no slow one that waits, unless it is for a quick one", async () => {
    const made = slotTable(8, 2);
    await made.known("quick", 5);
    const unknown = ["a", "b", "c"].map((id) => made.take(id));
    expect(made.admit("d")).toBe(10_000);
    expect(made.slots.tryTake(to("e"))).toBeUndefined();
    expect(made.slots.tryTake(to("quick"))).toBeDefined();
    unknown.pop()?.give();
    expect(made.lifted).toEqual(["d"]);
    expect(made.slots.tryTake(to("d"))).toBeUndefined();
    expect(typeof made.admit("d")).toBe("object");
  });
});

interface Mood {
  readonly ms: number;
  readonly well: boolean;
}
const HOSTILE: readonly Mood[] = [
  { ms: 30_000, well: false },
  { ms: 9_000, well: true },
  { ms: 1_500, well: true },
  { ms: 2_500, well: false },
];

describe("slots of a crowd", () => {
  const member = fc.record({ key: fc.nat({ max: 3 }), mood: fc.nat({ max: 3 }), due: fc.integer({ min: 1, max: 40 }) });

  it("are never more than there are, hostile ones hold half at most, a quick one finds its own, and whoever waits is served", async () => {
    const property = fc.asyncProperty(
      fc.array(member, { minLength: 1, maxLength: 60 }),
      fc.constantFrom<(number | "adapts")[]>("adapts", 16),
      fc.integer({ min: 64, max: 128 }),
      async (crowd, bound, total) => {
        const made = slotTable(total, bound);
        const open = new Map<Slot, { readonly mood: Mood; readonly at: number; readonly i: number }>();
        const served = new Set<number>();
        const heldBack = new Map<number, number>();
        const now = (): number => made.clock.monotonic();
        await made.known("quick", 5, "key_q", "https://quick.example");
        let quick: Slot[] = [];
        for (let step = 0; step < 400; step++) {
          for (const [slot, { mood, at, i }] of open) {
            if (now() - at < mood.ms) continue;
            open.delete(slot);
            served.add(i);
            answer([slot], mood.well);
          }
          answer(quick);
          quick = claim(made, "quick", 8, "key_q");
          expect(quick).toHaveLength(8);
          for (const id of made.lifted.splice(0)) heldBack.delete(Number(id));
          for (const [i, { key, mood, due }] of crowd.entries()) {
            if ((heldBack.get(i) ?? 0) > now()) continue;
            const most = Math.min(due, made.slots.perSubscription - (made.slots.busy.get(String(i)) ?? 0));
            for (let n = 0; n < most; n++) {
              const slot = made.admit(String(i), `key_${key}`);
              if (typeof slot === "number") {
                heldBack.set(i, now() + slot);
                break;
              }
              slot.toward(`https://origin${i % 5}.example/hook`);
              open.set(slot, { mood: HOSTILE[mood] as Mood, at: now(), i });
            }
          }
          expect(open.size).toBeLessThanOrEqual(Math.ceil(total / 2));
          expect(made.slots.free()).toBeGreaterThanOrEqual(0);
          await made.clock.advance(500);
        }
        expect(served.size).toBe(crowd.length);
        for (const slot of open.keys()) slot.give();
        for (const slot of quick) slot.give();
        await made.clock.advance(2_000);
        made.take("quick", "key_q").give();
        expect(made.slots.free()).toBe(total);
      },
    );
    await fc.assert(property, { numRuns: 15 });
  });

  it("are found by slow ones too where quick ones of the same key have more to do than there are slots", async () => {
    const made = slotTable(64, "adapts");
    const ids = Array.from({ length: 12 }, (_, i) => `quick${i}`);
    for (const id of ids) await made.known(id, 20);
    await made.known("slow", 3_000);
    const open = ids.flatMap((id) => claim(made, id, 16, "key_1"));
    expect(made.slots.free()).toBe(0);
    for (const id of ids) made.admit(id);
    made.admit("slow");
    for (let round = 0; round < 5 && !made.lifted.includes("slow"); round++) {
      await made.clock.advance(20);
      for (const slot of open.splice(0)) {
        answer([slot]);
        open.push(...ids.flatMap((id) => claim(made, id, 16, "key_1")));
      }
    }
    expect(made.lifted).toContain("slow");
  });
});

describe("a receiver that answers well", () => {
  it.for([50, 200])("in %i ms is kept up with at 600 events a second, by the config as it is", async (ms) => {
    await using test = await testPath();
    const late: number[] = [];
    const sentAt = new Map<string, number>();
    test.otherwise = async ({ headers }, signal) => {
      late.push(test.clock.now() - (sentAt.get(headers["webhook-id"] as string) as number));
      await test.clock.sleep(test.clock.now() + ms, signal);
      return replied(200);
    };
    await test.open();
    for (let step = 0; step < 400; step++) {
      for (let n = 0; n < 6; n++) {
        const id = `${step}:${n}`;
        // Before: it may be sent before its 202 is.
        sentAt.set(id, test.clock.now());
        await test.publish("deposit:paid", { id });
      }
      await test.clock.advance(10);
    }
    expect(late.length).toBeGreaterThan(2_300);
    // Then it has learned.
    expect(late.slice(1_200).toSorted((a, b) => a - b)[1_188]).toBeLessThanOrEqual(60);
  });
});
