// The circuit breaker: when it opens, lets one attempt through and closes, when it disables a subscription, and that nothing
// which is out of date does that.
import { describe, expect, it } from "vitest";
import { LeaseLostError, StorageError } from "../../core/model/errors.ts";
import { HEALTH as STREAK } from "../../core/model/schema.ts";
import { createGates } from "../../core/deliver/gates.ts";
import { testClock } from "../support/clock.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { useTwoNodes } from "../support/two-nodes.ts";

const twoNodes = useTwoNodes();

const DAY_MS = 86_400_000;
const HEALTH = { breakerAfter: 20, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 5 * DAY_MS };
const OPTIONS = { retry: { attempts: 1 }, health: HEALTH };
const ACTOR = { sub: "tester" };

/** Publishes an event that is answered so. @returns the status of its subscription */
async function deliver(test: TestPath, status: number): Promise<string | undefined> {
  test.otherwise = replied(status);
  const before = test.sent.length;
  await test.publish();
  await test.answered(before + 1);
  await test.parts.circuitBreaker.settled();
  return (await test.parts.subscriptionCache.of("key_1"))[0]?.status;
}

/** Another node delivers an event that is answered well. */
async function succeedsElsewhere({ clock, storage }: TestPath): Promise<void> {
  await using other = await testPath({ ...OPTIONS, clock, storage });
  other.parts.dispatcher.start();
  await deliver(other, 200);
}

/** A row that says since when, from now, all has failed. */
const put = ({ clock, storage }: TestPath, subscriptionId: string, ms: number): Promise<void> =>
  storage.commit([{ op: "put", key: STREAK.key({ subscriptionId }), value: String(clock.now() + ms) }]);

describe("the breaker", () => {
  it("pauses a subscription after failures in a row, lets one attempt through, and closes when it succeeds", async () => {
    await using test = await testPath({ ...OPTIONS, health: { ...HEALTH, breakerAfter: 3 } });
    await test.open();
    for (let i = 1; i <= 3; i++) await deliver(test, 500);
    for (let i = 0; i < 5; i++) await test.publish();
    await test.clock.advance(59_000);
    expect(test.sent).toHaveLength(3);
    test.otherwise = replied(200);
    await test.clock.advance(2_000);
    await test.whenSent(8);
  });

  it("opens after five time-outs in a row, where other failures take twenty", async () => {
    await using test = await testPath(OPTIONS);
    const id = await test.open();
    for (let i = 0; i < 19; i++) await deliver(test, 500);
    const rests = (): boolean => test.parts.circuitBreaker.state(id).restsUntil !== undefined;
    expect(rests()).toBe(false);
    await deliver(test, 200);
    test.otherwise = { kind: "error", error: "timeout", detail: "too late" };
    for (let i = 1; i <= 5; i++) {
      await test.publish();
      await test.answered(20 + i);
      expect(rests()).toBe(i === 5);
    }
  });

  it("does not open by time-outs of attempts that were under way together", async () => {
    await using test = await testPath(OPTIONS);
    const id = await test.open();
    const sub = await test.subscription(id);
    const { circuitBreaker } = test.parts;
    for (let together = 1; together <= 5; together++) {
      expect(circuitBreaker.state(id).restsUntil).toBeUndefined();
      await test.clock.advance(10_000);
      const attempt = { cycle: 0, number: 1, startedAt: 0, durationMs: 10_000, error: "timeout" } as const;
      const times = together < 5 ? 3 : 1;
      for (let n = 0; n < times; n++)
        circuitBreaker.attempted(sub, { ordinal: "x" } as never, attempt, { kind: "exhausted" });
    }
    expect(circuitBreaker.state(id).restsUntil).toBeDefined();
    await circuitBreaker.settled();
  });
});

describe("a subscription that only failed for days", () => {
  it("is disabled, whatever succeeded before", async () => {
    await using test = await testPath({ ...OPTIONS, health: { ...HEALTH, breakerAfter: 1_000 } });
    const id = await test.open();
    await deliver(test, 200);
    await test.clock.advance(1);
    await deliver(test, 500);
    await test.clock.advance(HEALTH.disableAfterMs);
    await deliver(test, 500);
    expect(await test.subscription(id)).toMatchObject({ status: "disabled", disabledReason: "endpoint_failing" });
  });

  it("is disabled after a restart, at its first failure", async () => {
    await using before = await testPath({ ...OPTIONS, health: { ...HEALTH, disableAfterMs: 10 * DAY_MS } });
    await put(before, await before.subscribe(), 0);
    await before.start();
    await deliver(before, 500);
    await before.clock.advance(6 * DAY_MS);
    await deliver(before, 500);
    await before.parts.dispatcher.stop(0);
    await before.clock.advance(61_000);
    const { clock, storage } = before;
    await using test = await testPath({ ...OPTIONS, clock, storage });
    await test.start();
    expect(await deliver(test, 500)).toBe("disabled");
  });

  it("is not by a row without a stored failure behind it: its days are counted from the start", async () => {
    await using test = await testPath(OPTIONS);
    await put(test, await test.subscribe(), -6 * DAY_MS);
    await test.start();
    expect(await deliver(test, 500)).toBe("active");
    await test.clock.advance(5 * DAY_MS);
    expect(await deliver(test, 500)).toBe("disabled");
  });

  it("is disabled at its next failure where it could not be, not five days later", async () => {
    await using test = await testPath(OPTIONS);
    await test.open();
    await deliver(test, 500);
    await test.clock.advance(6 * DAY_MS);
    const { commit } = test.storage;
    test.storage.commit = async (changes) => {
      if (changes.some(({ key }) => key.startsWith("subscription:"))) throw new StorageError("unavailable", "away");
      return commit(changes);
    };
    expect(await deliver(test, 500)).toBe("active");
    test.storage.commit = commit;
    expect(await deliver(test, 500)).toBe("disabled");
  });

  it("is disabled neither sooner nor later because a clock is set, forwards or back", async () => {
    await using test = await testPath({ ...OPTIONS, health: { ...HEALTH, breakerAfter: 1_000 } });
    await test.open();
    await deliver(test, 500);
    await test.clock.step(2 * HEALTH.disableAfterMs);
    expect(await deliver(test, 500)).toBe("active");
    await test.clock.step(-4 * HEALTH.disableAfterMs);
    await test.clock.advance(HEALTH.disableAfterMs);
    expect(await deliver(test, 500)).toBe("disabled");
  });

  it("is not, as long as days in which no relay was at work are among them, or a clock was ahead at the start", async () => {
    await using before = await testPath(OPTIONS);
    const { clock, storage } = before;
    await put(before, await before.subscribe(), 0);
    await before.start();
    await deliver(before, 500);
    await clock.advance(DAY_MS);
    await deliver(before, 500);
    await before.parts.dispatcher.stop(0);
    await clock.step(6 * DAY_MS);
    await clock.advance(61_000);
    await using test = await testPath({ ...OPTIONS, clock, storage });
    await test.start();
    expect(await deliver(test, 500)).toBe("active");
    await clock.advance(3 * DAY_MS);
    expect(await deliver(test, 500)).toBe("active");
    await clock.advance(DAY_MS);
    expect(await deliver(test, 500)).toBe("disabled");
  });

  it("is not when it is well for another node", async () => {
    await using test = await testPath(OPTIONS);
    const id = await test.open();
    await deliver(test, 500);
    await test.clock.advance(2 * DAY_MS);
    await test.parts.dispatcher.stop(0);
    await succeedsElsewhere(test);
    await test.clock.advance(4 * DAY_MS);
    const attempt = { cycle: 0, number: 1, startedAt: test.clock.now(), durationMs: 1, statusCode: 500 };
    const sub = await test.subscription(id);
    test.parts.circuitBreaker.attempted(sub, { ordinal: "x" } as never, attempt, { kind: "exhausted" });
    await test.parts.circuitBreaker.settled();
    expect(await test.subscription(id)).toMatchObject({ status: "active" });
    expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 0 });
  });
});

describe("a stored streak", () => {
  it.each([
    { which: "that a node left behind", ms: -6 * DAY_MS, waitMs: 0 },
    { which: "by a clock that was ahead", ms: 30 * DAY_MS, waitMs: 6 * DAY_MS },
  ])("$which neither disables nor pauses a subscription that has succeeded since", async ({ ms, waitMs }) => {
    await using test = await testPath(OPTIONS);
    const id = await test.subscribe();
    await put(test, id, ms);
    if (waitMs > 0) await test.parts.circuitBreaker.start();
    await test.clock.advance(waitMs);
    await succeedsElsewhere(test);
    if (waitMs > 0) test.parts.dispatcher.start();
    else await test.start();
    expect(await deliver(test, 500)).toBe("active");
    expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 1, failingSince: test.clock.now() });
    expect(await test.storage.range("health:")).toEqual([]);
  });

  it("is not counted on when a delivery succeeds while it is looked at", async () => {
    await using test = await testPath(OPTIONS);
    const id = await test.subscribe();
    await put(test, id, -6 * DAY_MS);
    await test.start();
    const { getItem } = test.storage;
    const look = Promise.withResolvers<void>();
    test.storage.getItem = async (key) => {
      const value = await getItem(key);
      if (key.startsWith("health:")) await look.promise;
      return value;
    };
    test.answers = [replied(500), replied(200)];
    for (let n = 1; n <= 2; n++) {
      await test.publish();
      await test.answered(n);
    }
    look.resolve();
    await test.parts.circuitBreaker.settled();
    expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 0 });
    expect(await test.subscription(id)).toMatchObject({ status: "active" });
  });

  it("that was taken away meanwhile does not either", async () => {
    await using test = await testPath(OPTIONS);
    const subscriptionId = await test.subscribe();
    await put(test, subscriptionId, -6 * DAY_MS);
    await test.start();
    await test.storage.commit([{ op: "delete", key: STREAK.key({ subscriptionId }) }]);
    expect(await deliver(test, 500)).toBe("active");
    expect(test.parts.circuitBreaker.state(subscriptionId)).toMatchObject({ failures: 1 });
  });

  it.each([
    { disabled: false, end: "deleted" },
    { disabled: true, end: "deleted" },
    { disabled: true, end: "enabled" },
  ])("is gone, in storage and in memory, once its subscription is $end (disabled before: $disabled)", async (over) => {
    await using test = await testPath({ ...OPTIONS, health: { ...HEALTH, breakerAfter: 3 } });
    const sub = await test.open();
    for (let i = 0; i < 3; i++) await deliver(test, 500);
    expect(await test.storage.range("health:")).toHaveLength(1);
    if (over.disabled) {
      await test.clock.advance(2 * HEALTH.disableAfterMs);
      expect(await deliver(test, 500)).toBe("disabled");
    }
    if (over.end === "enabled") await test.parts.subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    else await test.parts.subscriptions.remove("key_1", sub, ACTOR);
    expect(await test.storage.range("health:")).toEqual([]);
    expect(test.parts.circuitBreaker.state(sub)).toEqual({ failures: 0 });
  });
});

const REST_MS = 10_000;
const PROBED = { ...HEALTH, breakerAfter: 1, breakerPauseMs: REST_MS, breakerMaxPauseMs: REST_MS };

/** A subscription that rests, with one more event waiting; its receiver is well again. */
async function resting(): Promise<{ readonly test: TestPath; readonly waiting: string }> {
  const test = await testPath({ retry: { attempts: 1 }, health: PROBED });
  await test.deliver(replied(500));
  return { test, waiting: await test.publish() };
}

describe("the attempt that a breaker lets through", () => {
  it("is made, though the storage took so long to say yes that all is looked at again", async () => {
    const { test, waiting } = await resting();
    await using _ = test;
    const { queue } = test.storage;
    const extend = queue.extend.bind(queue);
    queue.extend = async (lease) => {
      queue.extend = extend;
      await test.clock.sleep(test.clock.now() + 6_000);
      return extend(lease);
    };
    await test.clock.advance(REST_MS + 6_001);
    expect(await test.status(waiting)).toBe("delivered");
  });

  it.each([
    ["its lease was lost", (): Promise<boolean> => Promise.reject(new LeaseLostError("sub"))],
    ["the storage failed", (): Promise<boolean> => Promise.reject(new StorageError("unavailable", "away"))],
  ])("leaves the way to another when %s", async (_what, lose) => {
    const { test } = await resting();
    await using _ = test;
    const { queue } = test.storage;
    const extend = queue.extend.bind(queue);
    queue.extend = () => {
      queue.extend = extend;
      return lose();
    };
    await test.clock.advance(REST_MS);
    const next = await test.publish();
    await test.clock.advance(REST_MS);
    expect(await test.status(next)).toBe("delivered");
  });

  it("makes the others wait for no longer than the pause was, for its node may die", async () => {
    const clock = testClock();
    const gates = createGates(clock);
    gates.pause("sub_1", "failing", REST_MS);
    await clock.advance(REST_MS);
    expect(gates.admit("sub_1", "probe")).toBeUndefined();
    expect(gates.admit("sub_1", "other")).toBe(REST_MS);
  });

  it("is not judged by what was sent before it", async () => {
    await using test = await testPath({ retry: { attempts: 1 }, health: PROBED });
    const replies = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    test.answers = [
      replied(500),
      () => replies[0]!.promise.then(() => replied(500)),
      () => replies[1]!.promise.then(() => replied(200)),
    ];
    const sub = await test.subscribe();
    for (let i = 0; i < 2; i++) await test.publish();
    await test.start();
    await test.whenSent(2);
    const ids = [await test.publish(), await test.publish()];
    await test.clock.advance(REST_MS);
    await test.whenSent(3);
    replies[0]!.resolve();
    await test.clock.advance(0);
    expect(test.parts.circuitBreaker.state(sub).restsUntil).toBeUndefined();
    replies[1]!.resolve();
    await test.clock.advance(0);
    await test.clock.advance(0);
    for (const id of ids) expect(await test.status(id)).toBe("delivered");
  });
});

it("a replay need only tell of those that a breaker pauses, on whichever node", async () => {
  const { clock, one: storage, two } = await twoNodes();
  await using test = await testPath({ clock, storage, retry: { attempts: 1 }, health: PROBED });
  await using other = await testPath({ clock, storage: two, health: PROBED });
  await test.deliver(replied(500));
  const [failing] = await test.parts.subscriptionCache.of("key_1");
  const well = await test.subscribe(["withdraw:sent"]);
  await test.parts.circuitBreaker.settled();
  const many = Array.from({ length: 1_200 }, (_, n) => `sub_${n}`);
  for (const { parts } of [test, other])
    expect(await parts.circuitBreaker.open([...many, failing?.id as string, well])).toEqual([failing?.id]);
});
