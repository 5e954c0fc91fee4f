import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { scheduleOf } from "../../core/model/subscription.ts";
import { replied, testPath, type Answer, type TestPath } from "../support/path.ts";

/** Every attempt of a delivery in one page. */
const ALL = { before: undefined, limit: 100 };

const ACTOR = { sub: "tester" };

/** One event's only delivery as it reads now. */
async function delivery(test: TestPath, eventId: string) {
  const found = await test.parts.history.event("key_1", eventId);
  return found?.deliveries[0];
}

/** Lets what is under way come to rest without moving time. */
const settle = (test: TestPath): Promise<void> => test.clock.advance(0);

describe("a delivery", () => {
  it("is made once when the receiver takes it, signed, with its attempt on record", async () => {
    await using test = await testPath();
    const id = await test.deliver();
    expect(await test.status(id)).toBe("delivered");
    expect(test.sent[0]?.headers).toMatchObject({
      "webhook-id": id,
      "X-Relay-Attempt": "1",
      "X-Relay-Event": "deposit:paid",
    });
    expect((await delivery(test, id))?.attempts).toMatchObject([{ number: 1, cycle: 0, statusCode: 200 }]);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("is tried five times with growing waits, then is failed, and never a sixth time", async () => {
    await using test = await testPath();
    test.otherwise = replied(500);
    await test.open();
    const id = await test.publish();
    for (const [made, wait] of [5_500, 22_000, 88_000, 352_000].entries()) {
      await test.answered(made + 1);
      expect(await test.status(id)).toBe("pending");
      await test.clock.advance(wait);
    }
    await test.answered(5);
    expect(await test.status(id)).toBe("failed");
    await test.clock.advance(10_000_000);
    expect(test.sent).toHaveLength(5);
    const detail = await delivery(test, id);
    expect(detail?.delivery).toMatchObject({ status: "failed", reason: "exhausted", cycle: 0 });
    expect(detail?.attempts.map((attempt) => attempt.number)).toEqual([1, 2, 3, 4, 5]);
  });

  it("is retried after an error, and delivered when the receiver has recovered", async () => {
    await using test = await testPath();
    test.answers = [{ kind: "error", error: "connect", detail: "refused" }, replied(503)];
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(5_500);
    await test.whenSent(2);
    await test.clock.advance(22_000);
    await test.answered(3);
    expect(await test.status(id)).toBe("delivered");
    expect((await delivery(test, id))?.attempts).toMatchObject([
      { error: "connect" },
      { statusCode: 503 },
      { statusCode: 200 },
    ]);
  });

  it("waits as long as Retry-After asks, and so does everything else of that subscription", async () => {
    await using test = await testPath();
    await test.deliver(replied(429, { retryAfter: "120" }));
    await test.publish();
    await test.clock.advance(119_000);
    expect(test.sent).toHaveLength(1);
    await test.clock.advance(2_000);
    await test.whenSent(3);
  });

  it("ends at 410: the subscription is disabled, and replayable once it is enabled again", async () => {
    await using test = await testPath();
    test.answers = [replied(410)];
    const sub = await test.open();
    const id = await test.publish();
    await test.answered(1);
    expect((await delivery(test, id))?.delivery).toMatchObject({ status: "failed", reason: "endpoint_gone" });
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({
      status: "disabled",
      disabledReason: "endpoint_gone",
    });
    await expect(test.parts.replay.event("key_1", id)).rejects.toMatchObject({ code: "NOT_REPLAYABLE" });
    await test.parts.subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
  });

  it("goes back unharmed and uncounted when the fault is ours", async () => {
    await using test = await testPath();
    const id = await test.deliver(() => Promise.reject(new Error("we are broken")));
    expect((await delivery(test, id))?.attempts).toEqual([]);
    await test.clock.advance(5_000);
    await test.answered(2);
    expect((await delivery(test, id))?.attempts).toMatchObject([{ number: 1, statusCode: 200 }]);
  });

  it("records an attempt once a fault of ours has come five times in a row, so that it ends like any other", async () => {
    await using test = await testPath({ retry: { attempts: 2 } });
    test.otherwise = () => Promise.reject(new Error("a secret cannot be opened"));
    await test.open();
    const id = await test.publish();
    for (let made = 1; made <= 4; made++) {
      await test.answered(made);
      expect((await delivery(test, id))?.attempts).toEqual([]);
      await test.clock.advance(5_000);
    }
    await test.answered(5);
    const recorded = (await delivery(test, id))?.attempts;
    expect(recorded).toMatchObject([{ number: 1, error: "protocol" }]);
    expect(JSON.stringify(recorded)).not.toContain("secret");
    for (let made = 0; made < 8; made++) await test.clock.advance(10_000);
    await settle(test);
    expect((await delivery(test, id))?.delivery).toMatchObject({ status: "failed", reason: "exhausted" });
    expect(test.sent).toHaveLength(10);
  });

  it("counts faults of ours in a row: an attempt in between begins the count again", async () => {
    await using test = await testPath();
    const broken: Answer = () => Promise.reject(new Error("we are broken"));
    test.answers = [broken, broken, broken, broken, replied(500), broken, broken, broken, broken, replied(200)];
    await test.open();
    const id = await test.publish();
    for (let waited = 0; waited < 20; waited++) await test.clock.advance(5_000);
    await settle(test);
    expect((await delivery(test, id))?.attempts).toMatchObject([{ statusCode: 500 }, { statusCode: 200 }]);
  });

  it("is not sent again when its result cannot be stored for a while: the result waits", async () => {
    await using test = await testPath();
    const settleLease = test.storage.queue.settle.bind(test.storage.queue);
    let failures = 3;
    test.storage.queue.settle = async (...args) => {
      if (failures-- > 0) throw new StorageError("full", "no space");
      await settleLease(...args);
    };
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(10_000);
    expect(test.sent).toHaveLength(1);
    expect(await test.status(id)).toBe("delivered");
  });

  it("is sent less and less often while its result can never be stored, and ends when it can again", async () => {
    await using test = await testPath();
    const settleLease = test.storage.queue.settle.bind(test.storage.queue);
    let damaged = true;
    test.storage.queue.settle = async (...args) => {
      if (damaged) throw new StorageError("broken", "a page of the database is damaged");
      await settleLease(...args);
    };
    await test.open();
    const id = await test.publish();
    for (let waited = 0; waited < 720; waited++) await test.clock.advance(5_000);
    const anHour = test.sent.length;
    // Five at 5 s, then at twice the wait each time, up to a quarter of an hour.
    expect(anHour).toBeGreaterThan(10);
    expect(anHour).toBeLessThan(18);
    damaged = false;
    for (let waited = 0; waited < 181; waited++) await test.clock.advance(5_000);
    expect(test.sent).toHaveLength(anHour + 1);
    expect(await test.status(id)).toBe("delivered");
  });

  it("goes on when the storage could not tell that its result had been stored", async () => {
    await using test = await testPath();
    test.answers = [replied(500), replied(500)];
    const settleLease = test.storage.queue.settle.bind(test.storage.queue);
    test.storage.queue.settle = async (_lease, changes) => {
      test.storage.queue.settle = settleLease;
      await test.storage.commit(changes);
      throw new StorageError("uncertain", "it may have happened");
    };
    await test.open();
    const id = await test.publish();
    for (let made = 1; made <= 3; made++) {
      await test.whenSent(made);
      await test.clock.advance(25_000);
    }
    expect(await test.status(id)).toBe("delivered");
    expect((await delivery(test, id))?.attempts.map((attempt) => attempt.number)).toEqual([1, 2, 3]);
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("that was replayed while its last request was under way is sent in the new cycle", async () => {
    await using test = await testPath();
    const held = Promise.withResolvers<void>();
    test.answers = [() => held.promise.then(() => replied(500))];
    const sub = await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
    await test.parts.subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    held.resolve();
    await test.answered(2);
    expect(test.sent[1]?.headers["X-Relay-Replay"]).toBe("1");
    expect(await test.status(id)).toBe("delivered");
    expect(await test.storage.queue.depth()).toMatchObject({ waiting: 0, leased: 0 });
  });

  it("whose record could not be read gives its slot back", async () => {
    await using test = await testPath({ delivery: { perSubscription: 1, holdMs: 0 } });
    const id = await test.deliver(replied(500));
    const read = test.storage.getItem;
    test.storage.getItem = () => Promise.reject(new StorageError("unavailable", "not now"));
    await test.clock.advance(5_500);
    test.storage.getItem = read;
    await test.clock.advance(5_500);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
  });
});

describe("after a crash", () => {
  it("a second relay on the same storage goes on where the first stopped, with the attempts that are left", async () => {
    await using first = await testPath();
    first.otherwise = replied(500);
    await first.open();
    const id = await first.publish();
    await first.whenSent(1);
    await first.clock.advance(5_500);
    await first.answered(2);
    // Nothing of the first one is stopped in order: its queue and leases are simply gone.
    const second = await testPath({ clock: first.clock, storage: await reborn(first) });
    await using _ = second;
    await second.start();
    await second.clock.advance(22_000);
    await second.answered(1);
    expect(second.sent[0]?.headers["X-Relay-Attempt"]).toBe("3");
    expect(await second.status(id)).toBe("delivered");
  });
});

/** A copy of what is stored, with a queue that knows nothing. */
async function reborn(test: TestPath): Promise<TestPath["storage"]> {
  const { memory } = await import("../../plugins/storage/memory.ts");
  const storage = await memory().setup({ clock: test.clock } as never);
  const entries = await test.storage.range("", { limit: 100_000 });
  await storage.commit(entries.map(({ key, value }) => ({ op: "put", key, value })));
  return storage;
}

describe("replay", () => {
  it("moves a failed delivery back to pending in a new cycle; earlier attempts stay listed", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    const id = await test.deliver(replied(500));
    expect(await test.status(id)).toBe("failed");
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    await test.answered(2);
    expect(test.sent[1]?.headers["X-Relay-Replay"]).toBe("1");
    const detail = await delivery(test, id);
    expect(detail?.delivery).toMatchObject({ status: "delivered", cycle: 1 });
    expect(detail?.attempts.map(({ cycle, number }) => [cycle, number])).toEqual([[1, 1]]);
    const all = await test.parts.attempts.page("key_1", id, detail?.delivery.subscriptionId ?? "", ALL);
    expect(all?.attempts.map(({ cycle, number }) => [cycle, number])).toEqual([
      [1, 1],
      [0, 1],
    ]);
  });

  it("asks for force when it was delivered, and for a known event and subscription", async () => {
    await using test = await testPath();
    const id = await test.deliver();
    const replay = test.parts.replay;
    await expect(replay.event("key_1", id)).rejects.toMatchObject({ code: "NOT_REPLAYABLE" });
    await expect(replay.event("key_1", "evt_none")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(replay.event("key_2", id)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(replay.event("key_1", id, { subscriptionId: "sub_none" })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect(await replay.event("key_1", id, { force: true })).toBe(1);
    await test.whenSent(2);
  });

  it("fills up a new subscriber that is named and whose names match", async () => {
    await using test = await testPath();
    await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    const late = await test.subscribe(["deposit:*"]);
    const other = await test.subscribe(["withdraw:sent"]);
    await expect(test.parts.replay.event("key_1", id, { subscriptionId: other })).rejects.toMatchObject({
      code: "NOT_REPLAYABLE",
    });
    expect(await test.parts.replay.event("key_1", id, { subscriptionId: late })).toBe(1);
    await test.answered(2);
    const found = await test.parts.history.event("key_1", id);
    expect(found?.deliveries.map((one) => one.delivery.status)).toEqual(["delivered", "delivered"]);
  });

  it("of all failed ones runs in order, due 1/perSecond apart, and counts first", async () => {
    await using test = await testPath({ retry: { attempts: 1 } });
    test.otherwise = replied(500);
    const sub = await test.open();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await test.publish());
    await test.answered(5);
    test.otherwise = replied(200);
    const subscription = (await test.parts.subscriptionCache.get("key_1", sub))!;
    const replay = test.parts.replay;
    expect(await replay.failed({ subscription, limit: 3, perSecond: 1, dryRun: true })).toEqual({
      matched: 3,
      replayed: 0,
      more: true,
    });
    expect(await replay.failed({ subscription, limit: 10, perSecond: 1 })).toEqual({
      matched: 5,
      replayed: 5,
      more: false,
    });
    await settle(test);
    expect(test.sent).toHaveLength(6);
    await test.clock.advance(4_000);
    await test.whenSent(10);
    expect(test.sent.slice(5).map((request) => request.headers["webhook-id"])).toEqual(ids);
  });
});

describe("disable and delete", () => {
  it("a disabled subscription's pending deliveries read as failed, and enabling it again resumes nothing", async () => {
    await using test = await testPath();
    test.otherwise = replied(500);
    const sub = await test.open();
    const id = await test.publish();
    await test.answered(1);
    const subscriptions = test.parts.subscriptions;
    await subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
    expect((await delivery(test, id))?.delivery).toMatchObject({ status: "failed", reason: "subscription_disabled" });
    const meanwhile = await test.publish();
    expect((await delivery(test, meanwhile))?.delivery).toMatchObject({
      status: "failed",
      reason: "subscription_disabled",
    });
    await subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    await test.clock.advance(1_000_000);
    expect(test.sent).toHaveLength(1);
    expect(await test.status(id)).toBe("failed");
    test.otherwise = replied(200);
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    expect(await test.parts.replay.event("key_1", meanwhile)).toBe(1);
    await test.answered(3);
    expect([await test.status(id), await test.status(meanwhile)]).toEqual(["delivered", "delivered"]);
  });

  it("a deleted subscription's attempt in flight is aborted, its pending deliveries are cancelled, their records follow", async () => {
    await using test = await testPath();
    let aborted = false;
    test.otherwise = (_, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          aborted = true;
          reject(signal.reason as Error);
        });
      });
    const sub = await test.open();
    const id = await test.publish();
    await test.whenSent(1);
    await test.parts.subscriptions.remove("key_1", sub, ACTOR);
    expect(aborted).toBe(true);
    expect((await delivery(test, id))?.delivery).toMatchObject({ status: "cancelled", reason: "subscription_deleted" });
    await test.clock.advance(60_000);
    expect(test.sent).toHaveLength(1);
    expect(await test.storage.range("due:")).toEqual([]);
    expect(await test.status(id)).toBe("cancelled");
  });
});

const HOUR = 3_600_000;

describe("a subscription whose retry policy lists its waits", () => {
  it("is tried after each of them, over three days, and no more", async () => {
    await using test = await testPath({ retry: scheduleOf([60_000, HOUR, 24 * HOUR, 46 * HOUR]) as never });
    test.otherwise = replied(500);
    await test.open();
    const began = test.clock.now();
    const id = await test.publish();
    await test.whenSent(1);
    const at: number[] = [0];
    for (let minutes = 0; minutes < 80 * 60; minutes += 10) {
      const before = test.sent.length;
      await test.clock.advance(600_000);
      if (test.sent.length > before) at.push((test.clock.now() - began) / HOUR);
    }
    expect(test.sent).toHaveLength(5);
    // Each wait is up to a tenth longer.
    const waits = at.map((hours, i) => hours - (at[i - 1] ?? 0)).slice(1);
    for (const [i, least] of [1 / 60, 1, 24, 46].entries()) {
      expect(waits[i]).toBeGreaterThanOrEqual(least - 1 / 6);
      expect(waits[i]).toBeLessThanOrEqual(least * 1.1 + 1 / 3);
    }
    expect(await test.status(id)).toBe("failed");
  });
});
