// Waits between attempts: short ones are held under their lease up to a number, the others go back; nobody is forgotten.
import { DUE } from "../../core/model/schema.ts";
import { describe, expect, it } from "vitest";
import { LeaseLostError, StorageError } from "../../core/model/errors.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const QUICK = { attempts: 2, firstDelayMs: 10_000, factor: 1, maxDelayMs: 10_000 };

async function failedOnce(count: number, test: TestPath): Promise<void> {
  test.otherwise = replied(500);
  await test.open();
  for (let i = 0; i < count; i++) await test.publish();
  await test.whenSent(count);
  // Until what came of the last ones is stored.
  const { underWay } = test.parts.dispatcher;
  for (let before = -1; before !== underWay();) {
    before = underWay();
    await test.clock.advance(0);
  }
}

describe("waits", () => {
  it("of up to 1,000 deliveries are held at once; what is beyond goes back, and all are made in their time, once", async () => {
    await using test = await testPath({ retry: QUICK });
    await failedOnce(1_200, test);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 1_000, waiting: 200 });
    expect(test.parts.dispatcher.underWay()).toBe(1_000);
    // They hold leases, but no slot.
    expect(test.parts.slots.free()).toBe(512);
    test.otherwise = replied(200);
    await test.clock.advance(9_900);
    expect(test.sent).toHaveLength(1_200);
    await test.clock.advance(1_200);
    await test.whenSent(2_400);
    await test.clock.advance(60_000);
    expect(test.sent).toHaveLength(2_400);
    expect(new Set(test.sent.map(({ headers }) => headers["webhook-id"])).size).toBe(1_200);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 0, waiting: 0 });
  });

  it("longer than the longest that is held go back at once", async () => {
    await using test = await testPath({ retry: QUICK, delivery: { holdMs: 9_999 } });
    await failedOnce(5, test);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 0, waiting: 5 });
    expect(test.parts.dispatcher.underWay()).toBe(0);
    await test.clock.advance(11_100);
    await test.whenSent(10);
  });

  it("are held also when the storage could not tell that the result before them was stored", async () => {
    await using test = await testPath({ retry: QUICK });
    const { queue } = test.storage;
    const { settle } = queue;
    queue.settle = async (_lease, changes) => {
      queue.settle = settle;
      await test.storage.commit(changes);
      throw new StorageError("uncertain", "it may have happened");
    };
    await failedOnce(1, test);
    // Until the second try has found it.
    await test.clock.advance(100);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 1, waiting: 0 });
    await test.clock.advance(11_100);
    expect(test.sent).toHaveLength(2);
  });

  it("that are held give room to other deliveries of the same subscription", async () => {
    await using test = await testPath({ retry: QUICK, delivery: { perSubscription: 1 } });
    await failedOnce(3, test);
    test.otherwise = replied(200);
    const id = await test.publish();
    await test.answered(4);
    expect(await test.status(id)).toBe("delivered");
    await test.clock.advance(11_100);
    await test.whenSent(7);
  });

  it("whose lease was lost when they began take no room from later ones", async () => {
    await using test = await testPath({ retry: QUICK });
    const { queue } = test.storage;
    const { settle } = queue;
    queue.settle = (lease, changes, then) =>
      then?.keep === undefined ? settle(lease, changes, then) : Promise.reject(new LeaseLostError());
    await failedOnce(1_200, test);
    expect(test.parts.dispatcher.underWay()).toBe(0);
    queue.settle = settle;
    await test.publish();
    await test.whenSent(1_201);
    for (let i = 0; i < 5; i++) await test.clock.advance(0);
    expect(test.parts.dispatcher.underWay()).toBe(1);
  });
});

describe("a relay that stops", () => {
  it("gives no wait back for less than what is left of it, although the storage fails at that moment", async () => {
    await using test = await testPath({ retry: QUICK });
    await failedOnce(1, test);
    const { queue } = test.storage;
    const asked: (number | undefined)[] = [];
    queue.release = async (_lease, dueAt) => {
      asked.push(dueAt);
      throw new StorageError("unavailable", "for a moment");
    };
    const stopped = test.parts.dispatcher.stop(5_000);
    await test.clock.advance(0);
    await stopped;
    expect(asked).toHaveLength(1);
    expect(asked[0]).toBeGreaterThan(test.clock.now() + 8_000);
  });

  it("gives a wait back with what is left of it, although its clock was set back meanwhile", async () => {
    await using test = await testPath({ retry: QUICK });
    await failedOnce(1, test);
    await test.clock.advance(6_000);
    await test.clock.step(-3_600_000);
    const stopped = test.parts.dispatcher.stop(5_000);
    await test.clock.advance(0);
    await stopped;
    const claim = () => test.storage.queue.claim({ limit: 9, perSubscription: 9, busy: new Map() });
    await test.clock.advance(2_000);
    expect(await claim()).toEqual([]);
    await test.clock.advance(3_200);
    expect(await claim()).toHaveLength(1);
  });

  it("makes no attempt for a wait that was over but had no slot: it goes back with its number", async () => {
    await using test = await testPath({ retry: QUICK, delivery: { perSubscription: 1 } });
    await failedOnce(2, test);
    const hanging = Promise.withResolvers<void>();
    test.answers = [() => hanging.promise.then(() => replied(200))];
    await test.clock.advance(11_100);
    await test.whenSent(3);
    const stopped = test.parts.dispatcher.stop(5_000);
    await test.clock.advance(0);
    hanging.resolve();
    test.otherwise = replied(200);
    await test.clock.advance(0);
    await stopped;
    expect(test.sent).toHaveLength(3);
    expect((await test.storage.range("due:")).map(({ key, value }) => DUE.orThrow(value, key))).toMatchObject([
      { keyId: "key_1", generation: 1, cycle: 0, attempts: 1 },
    ]);
    expect(await test.storage.queue.depth()).toMatchObject({ leased: 0, waiting: 1 });
  });
});
