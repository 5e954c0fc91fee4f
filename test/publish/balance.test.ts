// When the relay cannot deliver as fast as a key publishes, the publisher waits: never for a receiver that is slow or down.
import { describe, expect, it } from "vitest";
import fc from "fast-check";
import type { Due } from "../../core/model/delivery.ts";
import { createBalance } from "../../core/publish/balance.ts";
import { testClock, turn } from "../support/clock.ts";
import { quietMetrics } from "../support/quiet.ts";
import { replied, testPath } from "../support/path.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";

/** A balance whose deliveries are kept beside it as they are. */
function scales() {
  const clock = testClock();
  const metrics = quietMetrics();
  const world = { slow: new Set<string>(), lines: new Map<string, number>(), counts: 0 };
  const balance = createBalance({
    clock,
    metrics,
    isQuick: (id) => !world.slow.has(id),
    queue: {
      pending: async ([id = ""]) => {
        world.counts++;
        return world.lines.get(id) ?? 0;
      },
    },
  });
  const delayMs = (keyId = "key_1"): number => balance.delayMs([{ keyId }]);
  const due = (id: string, keyId: string): Due => ({
    ...{ subscriptionId: id, keyId, ordinal: "0", dueAt: 0, generation: 1, cycle: 0, attempts: 0 },
  });
  const move = (id: string, by: number): number => {
    const before = world.lines.get(id) ?? 0;
    const after = Math.max(0, before + by);
    world.lines.set(id, after);
    return Math.abs(after - before);
  };
  const add = (count: number, id = "sub_a", keyId = "key_1"): void => {
    move(id, count);
    balance.added(Array<Due>(count).fill(due(id, keyId)));
  };
  const begin = (count: number, id = "sub_a", keyId = "key_1"): void => {
    for (let n = move(id, -count); n > 0; n--) balance.began(due(id, keyId));
  };
  /** Publishes and begins so many for a while, a hundred times a second. Returns the delay after it, ms. */
  async function run(
    seconds: number,
    published: number,
    begun: number,
    id = "sub_a",
    keyId = "key_1",
  ): Promise<number> {
    for (let n = 0; n < seconds * 100; n++) {
      add(published / 100, id, keyId);
      await clock.advance(10);
      begin(begun / 100, id, keyId);
      balance.delayMs([{ keyId }]);
      await Promise.resolve();
    }
    return balance.delayMs([{ keyId }]);
  }
  return { ...{ clock, metrics, world, balance, delayMs, add, begin, move, run } };
}

describe("the answers to a key", () => {
  it("are not delayed while its deliveries begin within a second", async () => {
    const { run, world } = scales();
    expect(await run(3, 1_000, 1_000)).toBe(0);
    // Ahead by nine tenths of a second.
    expect(await run(1, 1_900, 1_000)).toBe(0);
    expect(await run(5, 1_000, 1_000)).toBe(0);
    expect(world.counts).toBe(0);
  });

  it("are delayed by what they would begin later, and by a second at most", async () => {
    const { run } = scales();
    const delay = await run(1.5, 2_000, 1_000);
    expect(delay).toBeGreaterThan(300);
    expect(delay).toBeLessThan(600);
    expect(await run(10, 2_000, 1_000)).toBe(1_000);
    expect(await run(20, 0, 1_000)).toBe(0);
  });

  it("that hold events of several keys are delayed as the slowest of them, which is counted", async () => {
    const { run, balance, metrics } = scales();
    expect(balance.delayMs([{ keyId: "key_1" }])).toBe(0);
    expect(metrics.counted.size).toBe(0);
    await run(10, 2_000, 1_000);
    const before = metrics.counted.get("accept_delay_seconds") ?? 0;
    expect(balance.delayMs([{ keyId: "key_2" }, { keyId: "key_1" }, { keyId: "key_1" }])).toBe(1_000);
    expect(metrics.counted.get("accept_delay_seconds")).toBe(before + 1);
  });

  it("are not delayed for what other nodes have accepted", async () => {
    const { run, move } = scales();
    move("sub_a", 50_000);
    const delay = await run(1.5, 2_000, 1_000);
    expect(delay).toBeGreaterThan(300);
    expect(delay).toBeLessThan(600);
  });

  it("are not delayed for what another key has waiting", async () => {
    const { run, delayMs } = scales();
    await run(10, 2_000, 1_000);
    expect(delayMs("key_2")).toBe(0);
    expect(await run(3, 100, 100, "sub_b", "key_2")).toBe(0);
  });

  it("are not delayed for a slow receiver, however far it is behind", async () => {
    const { add, begin, clock, world, delayMs } = scales();
    world.slow.add("sub_slow");
    for (let n = 0; n < 1_000; n++) {
      add(1);
      add(20, "sub_slow");
      await clock.advance(10);
      begin(1);
      begin(10, "sub_slow");
      expect(delayMs()).toBe(0);
    }
  });

  it("are not delayed for what waits for a receiver that was down, nor while that is made up for", async () => {
    const { add, run } = scales();
    add(100_000, "sub_down");
    expect(await run(5, 1_000, 1_000)).toBe(0);
    expect(await run(5, 100, 1_000, "sub_down")).toBe(0);
  });

  it("are hardly delayed for one receiver that lags while nearly all of what they carry begins at once", async () => {
    const { add, begin, clock, delayMs } = scales();
    add(5_000, "sub_lags");
    for (let n = 0; n < 500; n++) {
      add(10);
      add(1, "sub_lags");
      await clock.advance(10);
      begin(10);
      begin(1, "sub_lags");
      expect(delayMs()).toBe(0);
    }
  });

  it("are not delayed for a burst after a quiet time, in which few began because few came", async () => {
    const { run, add, begin, clock, delayMs } = scales();
    await run(5, 100, 100);
    add(900);
    for (let n = 0; n < 9; n++) {
      await clock.advance(100);
      begin(100);
      expect(delayMs()).toBe(0);
    }
  });

  it("are not delayed for a burst after a rest, which says nothing of how fast deliveries begin", async () => {
    const { run, add, begin, clock, delayMs } = scales();
    expect(await run(5, 2_000, 1_000)).toBe(1_000);
    await clock.advance(60_000);
    begin(1_000_000);
    add(900);
    for (let n = 0; n < 9; n++) {
      expect(delayMs()).toBe(0);
      await clock.advance(100);
      begin(100);
    }
  });
});

describe("a count of what waits", () => {
  it("is mended where other nodes begin what this one has added", async () => {
    const { run, move, world, delayMs } = scales();
    for (let n = 0; n < 1_000; n++) {
      await run(0.01, 1_000, 500);
      move("sub_a", -5);
      expect(delayMs()).toBe(0);
    }
    expect(world.counts).toBeLessThan(20);
  });

  it("leaves no delay behind, whatever is added, begins, or goes without beginning", async () => {
    const one = fc.record({
      id: fc.constantFrom("sub_a", "sub_b", "sub_c"),
      add: fc.nat(3_000),
      begin: fc.nat(1_500),
      cancel: fc.oneof(fc.constant(0), fc.nat(100_000)),
      ms: fc.nat(300),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { maxLength: 60 }), async (steps) => {
        const { add, begin, move, clock, run, delayMs } = scales();
        for (const { id, add: more, begin: less, cancel, ms } of steps) {
          add(more, id);
          begin(less, id);
          move(id, -cancel);
          await clock.advance(ms);
          const delay = delayMs();
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(1_000);
        }
        for (const id of ["sub_a", "sub_b", "sub_c"]) move(id, -1_000_000);
        // From then on all keep up.
        await run(0.5, 1_000, 1_000);
        for (const id of ["sub_a", "sub_b", "sub_c"]) expect(await run(0.5, 1_000, 1_000, id)).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});

describe("an event of a key that is ahead of its deliveries", () => {
  it("is stored and handed on before its answer is delayed, and others of its key are stored meanwhile", async () => {
    const counted: Due[] = [];
    const made = desk({ balance: { added: (dues) => void counted.push(...dues), delayMs: () => 500 } });
    made.subscriptions = [subscription("a")];
    let answered = 0;
    // More than may be under way at once.
    const full = Array.from({ length: 1_000 }, () => paid());
    const all = [full, full, full].map((events) => made.intake.accept(publish(events)).then(() => answered++));
    while (made.shelf.added.length < 3_000) await turn();
    expect(counted).toEqual(made.shelf.added);
    expect(answered).toBe(0);
    await made.clock.advance(500);
    await Promise.all(all);
    expect(answered).toBe(3);
  });

  it("counts as accepted in the time until it was stored, without the delay", async () => {
    const made = desk({ balance: { added: () => {}, delayMs: () => 500 } });
    const accepting = made.intake.accept(publish([paid()]));
    await made.clock.advance(500);
    await accepting;
    expect(made.log.lines.find(({ message }) => message === "accepted")?.fields["durationMs"]).toBe(0);
  });
});

describe("a relay whose receiver cannot keep up", () => {
  /** Publishes 500 events a second for a receiver that gets 100 at most. Returns the sum of the delays, s. */
  async function published(over: object = {}): Promise<number> {
    const metrics = quietMetrics();
    await using test = await testPath({ metrics, delivery: { perSubscription: 2 } });
    test.otherwise = async (_, signal) => {
      await test.clock.sleep(test.clock.now() + 20, signal);
      return replied(200);
    };
    const url = "https://receiver.example/hook";
    await test.parts.subscriptions.create("key_1", { url, events: ["*"], ...over }, { sub: "tester" });
    await test.subscribe(["*"], "key_2", "https://other.example/hook");
    await test.start();
    let waiting = 0;
    for (let n = 0; n < 250; n++) {
      waiting += 10;
      for (let i = 0; i < 10; i++) void test.publish().then(() => waiting--);
      await test.publish("deposit:paid", { keyId: "key_2" });
      await test.clock.advance(20);
    }
    await test.clock.advance(1_000);
    expect(waiting).toBe(0);
    return metrics.counted.get("accept_delay_seconds") ?? 0;
  }

  it("delays the answers to that key, and no other", async () => {
    expect(await published()).toBeGreaterThan(100);
  });

  it("delays none for a receiver that is to get so many a second and no more", async () => {
    expect(await published({ rateLimit: { perSecond: 50 } })).toBe(0);
  });
});
