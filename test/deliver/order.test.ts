import { describe, expect, it } from "vitest";
import { heldOfSubscription, skipHeld } from "../../core/records/held.ts";
import { countWaiting } from "../../core/records/sequence-rows.ts";
import { ACTOR, faults, ids, orderedPath, publishAll, settle } from "../support/ordered.ts";
import { replied, testPath } from "../support/path.ts";

describe("an ordered subscription", () => {
  it("gets one delivery after another, in the order of acceptance", async () => {
    const { test } = await orderedPath();
    await using _ = test;
    let open = 0;
    let most = 0;
    test.otherwise = async () => {
      most = Math.max(most, ++open);
      await new Promise((turned) => setImmediate(turned));
      open--;
      return replied(200);
    };
    const made = await publishAll(
      test,
      Array.from({ length: 20 }, (_, n) => ({ n })),
    );
    expect(await countWaiting(test.storage, "key_1")).toBe(19);
    expect(await faults(test)).toEqual([]);
    await test.start();
    await test.answered(20);
    expect(ids(test)).toEqual(made);
    expect(most).toBe(1);
    expect(await countWaiting(test.storage)).toBe(0);
    expect(await faults(test)).toEqual([]);
  });

  it("gets nothing twice when another one enters while the end of the first is stored", async () => {
    const { test } = await orderedPath();
    await using _ = test;
    const { queue } = test.storage;
    const settle = queue.settle.bind(queue);
    let second: string | undefined;
    queue.settle = async (...given) => {
      second ??= await test.publish();
      return await settle(...given);
    };
    const first = await test.publish();
    await test.start();
    await test.answered(2);
    await test.clock.advance(60_000);
    expect(ids(test)).toEqual([first, second]);
    expect(await test.status(first)).toBe("delivered");
    expect(await faults(test)).toEqual([]);
  });

  it("waits for the retries of the one whose turn it is", async () => {
    const { test } = await orderedPath();
    await using _ = test;
    test.answers = [replied(500), replied(500)];
    await test.start();
    const [first, second] = await publishAll(test, [1, 2]);
    await test.answered(1);
    expect(await faults(test)).toEqual([]);
    await test.clock.advance(5_500);
    await test.answered(2);
    expect(ids(test)).toEqual([first, first]);
    await test.clock.advance(22_000);
    await test.whenSent(4);
    expect(ids(test)).toEqual([first, first, first, second]);
  });

  it("passes a failed one by default, which stays failed and can be replayed at its place", async () => {
    const { test, sub } = await orderedPath({ retry: { attempts: 1 } });
    await using _ = test;
    test.answers = [replied(500)];
    const [first = "", second, third] = await publishAll(test, [1, 2, 3]);
    await test.start();
    await test.answered(3);
    expect(ids(test)).toEqual([first, second, third]);
    expect(await test.status(first)).toBe("failed");
    const { promise, resolve } = Promise.withResolvers<void>();
    test.answers = [
      async () => {
        await promise;
        return replied(200);
      },
    ];
    const later = await publishAll(test, [4, 5]);
    await test.whenSent(4);
    expect(await test.parts.replay.event("key_1", first, { subscriptionId: sub })).toBe(1);
    expect(await faults(test)).toEqual([]);
    resolve();
    await test.answered(6);
    expect(ids(test).slice(3)).toEqual([later[0], first, later[1]]);
    expect(await test.status(first)).toBe("delivered");
    expect(await faults(test)).toEqual([]);
  });

  it("is held up by a failed one until it is skipped", async () => {
    const { test, sub } = await orderedPath({ retry: { attempts: 1 }, onFailed: "hold" });
    await using _ = test;
    test.answers = [replied(500)];
    const [first = "", second] = await publishAll(test, [1, 2]);
    await test.start();
    await test.answered(1);
    await test.clock.advance(10_000_000);
    const third = await test.publish();
    await settle(test);
    expect(ids(test)).toEqual([first]);
    const [held] = await heldOfSubscription(test.storage, sub);
    expect(held).toMatchObject({ row: { eventId: first, keyId: "key_1" } });
    expect(await faults(test)).toEqual([]);
    if (held === undefined) throw new Error("nothing is held");
    expect(await skipHeld(test.storage, "key_1", held)).toBe(true);
    expect(await skipHeld(test.storage, "key_1", held)).toBe(false);
    await test.answered(3);
    expect(ids(test)).toEqual([first, second, third]);
    expect(await test.status(first)).toBe("failed");
    expect(await faults(test)).toEqual([]);
  });

  it("goes on behind a held one that is replayed, which goes first", async () => {
    const { test, sub } = await orderedPath({ retry: { attempts: 1 }, onFailed: "hold" });
    await using _ = test;
    test.answers = [replied(500)];
    const [first = "", second] = await publishAll(test, [1, 2]);
    await test.start();
    await test.answered(1);
    expect(await test.parts.replay.event("key_1", first)).toBe(1);
    await test.answered(3);
    expect(ids(test)).toEqual([first, first, second]);
    expect(await heldOfSubscription(test.storage, sub)).toEqual([]);
    expect(await faults(test)).toEqual([]);
  });

  it("with orderBy keeps the order of each value, and one value does not wait for another", async () => {
    const { test } = await orderedPath({ orderBy: "data.account" });
    await using _ = test;
    const accounts = ["a", "b", "c", "d"];
    test.otherwise = async ({ body }) => replied(Buffer.from(body).toString().includes('"account":"a"') ? 500 : 200);
    const data = Array.from({ length: 12 }, (_, n) => ({ account: accounts[n % 4], n }));
    const made = await publishAll(test, data);
    await test.start();
    await test.answered(10);
    const of = (account: string): string[] => made.filter((_, n) => data[n]?.account === account);
    for (const account of ["b", "c", "d"])
      expect(ids(test).filter((id) => of(account).includes(id))).toEqual(of(account));
    expect(ids(test).filter((id) => of("a").includes(id))).toEqual(of("a").slice(0, 1));
    expect(await faults(test)).toEqual([]);
  });

  it("does not wait for what failed when it was disabled, and gets it in order when that is replayed", async () => {
    const { test, sub } = await orderedPath({ retry: { attempts: 1 }, onFailed: "hold" });
    await using _ = test;
    test.answers = [replied(500)];
    const before = await publishAll(test, [1, 2, 3]);
    await test.start();
    await test.answered(1);
    await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
    await settle(test);
    const during = await publishAll(test, [4, 5]);
    for (const id of [...before, ...during]) expect(await test.status(id)).toBe("failed");
    expect(await countWaiting(test.storage)).toBe(0);
    await test.parts.subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    const subscription = await test.subscription(sub);
    expect(ids(test)).toHaveLength(1);
    const done = await test.parts.replay.failed({ subscription, limit: 100, perSecond: 1_000 });
    expect(done.replayed).toBe(5);
    const last = await test.publish();
    for (let n = 2; n <= 7; n++) {
      await test.clock.advance(10);
      await test.whenSent(n);
    }
    await settle(test);
    expect(ids(test).slice(1)).toEqual([...before, ...during, last]);
    expect(await faults(test)).toEqual([]);
  });

  it("keeps its place in a wide event", async () => {
    const { test, sub } = await orderedPath({}, { fanout: { perEvent: 2, page: 1 } });
    await using _ = test;
    for (let n = 0; n < 4; n++) await test.subscribe(["deposit:paid"], "key_1", `https://other-${n}.example/hook`);
    const made = await publishAll(test, [1, 2, 3]);
    await test.start();
    await test.answered(15);
    const own = test.sent.filter(({ url }) => url === "https://receiver.example/hook");
    expect(own.map(({ headers }) => headers["webhook-id"])).toEqual(made);
    for (const id of made) expect(await test.status(id)).toBe("delivered");
    expect(await test.storage.range(`delivery:${sub}:`)).toHaveLength(3);
    expect(await faults(test)).toEqual([]);
  });

  it("cancels what waits when it is deleted", async () => {
    const { test, sub } = await orderedPath({ retry: { attempts: 1 }, onFailed: "hold" });
    await using _ = test;
    test.answers = [replied(500)];
    const made = await publishAll(test, [1, 2, 3]);
    await test.start();
    await test.answered(1);
    await test.parts.subscriptions.remove("key_1", sub, ACTOR);
    await test.clock.advance(60_000);
    expect(ids(test)).toEqual(made.slice(0, 1));
    expect(await test.status(made[1] as string)).toBe("cancelled");
    expect(await test.storage.range("waiting:")).toEqual([]);
    expect(await test.storage.range("due:")).toEqual([]);
  });

  it("costs others nothing: an event without an ordered subscription has the same rows as ever", async () => {
    await using test = await testPath();
    await test.subscribe();
    await test.publish();
    for (const prefix of ["delivery:", "sequence:", "passed:", "waiting:", "held:"])
      expect(await test.storage.range(prefix)).toEqual([]);
  });
});
