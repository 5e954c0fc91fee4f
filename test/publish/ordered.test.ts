import { describe, expect, it } from "vitest";
import { createAdmission } from "../../core/publish/admission.ts";
import { createPlacing } from "../../core/publish/ordered.ts";
import { testClock, turn } from "../support/clock.ts";
import { publish } from "../support/intake.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { testPath } from "../support/path.ts";

const ACTOR = { sub: "tester" };

describe("publications in order", () => {
  it("take turns for each key, in the order of their arrival", async () => {
    const placing = createPlacing({} as never, testClock());
    const aside = (wait: Promise<void>): Promise<void> => wait;
    const order: number[] = [];
    const one = async (n: number): Promise<void> => {
      const end = await placing.turn(["key_1"], aside);
      order.push(n);
      await new Promise((turned) => setImmediate(turned));
      end();
    };
    const other = placing.turn(["key_2"], aside);
    await Promise.all([one(1), one(2), one(3)]);
    (await other)();
    expect(order).toEqual([1, 2, 3]);
  });

  it("of several keys never wait for each other, whatever order they name them in", async () => {
    const placing = createPlacing({} as never, testClock());
    const aside = (wait: Promise<void>): Promise<void> => wait;
    let ended = 0;
    const one = async (...keys: string[]): Promise<void> => {
      const end = await placing.turn(keys, aside);
      await turn();
      end();
      ended++;
    };
    void one("key_0");
    void one("key_1");
    void one("key_0", "key_1");
    void one("key_1", "key_0");
    for (let turns = 0; turns < 10; turns++) await turn();
    expect(ended).toBe(4);
  });

  it("take no room from other keys while they wait for their turn", async () => {
    const clock = testClock();
    const storage = { queue: {} } as never;
    const [log, metrics] = [quietLog(), quietMetrics()];
    const admission = createAdmission({
      storage,
      subscriptionCache: { of: () => [] },
      clock,
      log,
      metrics,
      maxPending: 0,
    });
    const placing = createPlacing({} as never, clock);
    // Half of all that may be under way at once.
    const enter = (keyId: string) => admission.enter(publish([{}]), Array<string>(1_000).fill(keyId));
    const first = await enter("key_1");
    const end = await placing.turn(["key_1"], (wait) => wait);
    const second = await enter("key_1");
    const placed = placing.turn(["key_1"], (wait) => admission.turns.aside(second, wait));
    await enter("key_2");
    end();
    admission.turns.leave(first);
    (await placed)();
  });

  it("are refused while the first that waits has waited too long, so that they do not pile up", async () => {
    const clock = testClock();
    const placing = createPlacing({} as never, clock);
    const aside = (wait: Promise<void>): Promise<void> => wait;
    const end = await placing.turn(["key_1"], aside);
    const second = placing.turn(["key_1"], aside);
    await clock.advance(2_001);
    await expect(placing.turn(["key_0", "key_1"], aside)).rejects.toMatchObject({ code: "PROVIDER_BACKPRESSURE" });
    // The other key's turn was given back.
    (await placing.turn(["key_0"], aside))();
    end();
    (await second)();
    (await placing.turn(["key_1"], aside))();
  });

  it("wait for a slow commit alone: the same key's events without order go on", async () => {
    await using test = await testPath();
    await test.subscribe(["deposit:plain"]);
    const url = "https://receiver.example/ordered";
    await test.parts.subscriptions.create("key_1", { url, events: ["deposit:paid"], ordered: true }, ACTOR);
    await test.publish("deposit:paid");
    const { commit } = test.storage;
    const { promise, resolve } = Promise.withResolvers<void>();
    test.storage.commit = async (changes) => {
      if (changes.some(({ key }) => key.startsWith("sequence:"))) await promise;
      await commit(changes);
    };
    const slow = [test.publish("deposit:paid"), test.publish("deposit:paid")];
    const plain = await test.publish("deposit:plain");
    expect(await test.status(plain)).toBe("pending");
    resolve();
    await Promise.all(slow);
  });
});
