// A receiver that asks for rest (Retry-After) gets it from everything of its subscription, whatever else happens.
import { describe, expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { holdSettles, replied, testPath, type TestPath } from "../support/path.ts";
import { useTwoNodes } from "../support/two-nodes.ts";

const twoNodes = useTwoNodes();

const HEALTH = { breakerAfter: 3, breakerPauseMs: 10_000, breakerMaxPauseMs: 10_000, disableAfterMs: 432_000_000 };

/** Subscribes, publishes so many events, and starts; resolves when so many requests are sent. */
async function publishAndSend(test: TestPath, events: number, sent: number): Promise<void> {
  await test.subscribe();
  for (let i = 0; i < events; i++) await test.publish();
  await test.start();
  await test.whenSent(sent);
}

/** Nothing more is sent now, two seconds before the rest ends, and one request when it has ended. */
async function isSentNext(test: TestPath, before: number): Promise<void> {
  expect(test.sent).toHaveLength(before);
  await test.clock.advance(3_000);
  await test.whenSent(before + 1);
}

describe("a subscription whose receiver asks for rest", () => {
  it("sends no retry that was held already", async () => {
    await using test = await testPath();
    test.answers = [replied(500), replied(503, { retryAfter: "600" })];
    await test.open();
    const held = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(1_000);
    const asked = await test.publish();
    await test.whenSent(2);
    await test.clock.advance(599_000);
    expect(test.sent).toHaveLength(2);
    await test.clock.advance(3_000);
    await test.answered(4);
    expect([await test.status(held), await test.status(asked)]).toEqual(["delivered", "delivered"]);
  });

  it("rests as long as it asked for, though the storage could not be told", async () => {
    await using test = await testPath({ delivery: { holdMs: 0 } });
    const { queue } = test.storage;
    const pause = queue.pause.bind(queue);
    let failed = 0;
    queue.pause = async (...args) => {
      if (failed++ === 0) throw new StorageError("unavailable", "for a moment");
      return pause(...args);
    };
    test.answers = [replied(503, { retryAfter: "20" })];
    await test.open();
    const asked = await test.publish();
    await test.whenSent(1);
    await test.clock.advance(1_000);
    const after = await test.publish();
    await test.clock.advance(18_000);
    expect(failed).toBeGreaterThan(0);
    expect(test.sent).toHaveLength(1);
    await test.clock.advance(5_000);
    await test.answered(3);
    expect([await test.status(asked), await test.status(after)]).toEqual(["delivered", "delivered"]);
  });

  it.each([
    ["while its answer is still being stored", 1_000, 598_000],
    ["and rests no longer because its answer took long to store", 300_000, 299_000],
  ])("is sent nothing more %s", async (_what, storedAfterMs, thenMs) => {
    await using test = await testPath({ retry: { attempts: 1 }, delivery: { perSubscription: 1 } });
    const stored = holdSettles(test.storage);
    test.answers = [replied(503, { retryAfter: "600" })];
    await publishAndSend(test, 2, 1);
    await test.clock.advance(storedAfterMs);
    expect(test.sent).toHaveLength(1);
    stored.letGo();
    await test.clock.advance(thenMs);
    await isSentNext(test, 1);
  });

  it("rests as long as it asked for, though its circuit breaker would pause it for less", async () => {
    await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH, delivery: { perSubscription: 3 } });
    const replies = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    test.answers = [
      replied(503, { retryAfter: "600" }),
      () => replies[0]!.promise.then(() => replied(500)),
      () => replies[1]!.promise.then(() => replied(500)),
    ];
    await publishAndSend(test, 3, 3);
    await test.clock.advance(0);
    expect(test.parts.gates.count("retry_after")).toBe(1);
    for (const reply of replies) reply.resolve();
    await test.clock.advance(0);
    expect(test.parts.gates.count("failing")).toBe(1);
    const waiting = await test.publish();
    await test.clock.advance(598_000);
    await isSentNext(test, 3);
    await test.clock.advance(0);
    expect([test.parts.gates.count("retry_after"), test.parts.gates.count("failing")]).toEqual([0, 0]);
    expect(await test.status(waiting)).toBe("delivered");
  });

  it("rests on though a request that was under way succeeds", async () => {
    await using test = await testPath({ retry: { attempts: 1 }, health: { ...HEALTH, breakerAfter: 1 } });
    const late = Promise.withResolvers<void>();
    test.answers = [replied(503, { retryAfter: "600" }), () => late.promise.then(() => replied(200))];
    await publishAndSend(test, 2, 2);
    await test.clock.advance(0);
    late.resolve();
    await test.clock.advance(0);
    await test.publish();
    await test.clock.advance(598_000);
    await isSentNext(test, 2);
  });

  it("is sent to at once when it is enabled again", async () => {
    await using test = await testPath();
    test.answers = [replied(503, { retryAfter: "600" })];
    const sub = await test.open();
    await test.publish();
    await test.answered(1);
    for (const status of ["disabled", "active"] as const)
      await test.parts.subscriptions.update("key_1", sub, { status }, { sub: "tester" });
    await test.publish();
    await test.whenSent(2);
  });
});

/** Two nodes; the first has sent one event, whose receiver asked for ten minutes. */
async function rested(more: Parameters<typeof testPath>[0] = {}) {
  const { clock, one: storage, two } = await twoNodes();
  const one = await testPath({ ...more, clock, storage });
  const other = await testPath({ ...more, clock, storage: two });
  for (const { parts } of [one, other]) parts.cluster.listen();
  const sub = await one.open();
  one.answers = [replied(503, { retryAfter: "600" })];
  const event = await one.publish();
  await one.whenSent(1);
  await clock.advance(0);
  return { clock, one, other, sub, event };
}
const left = ({ parts }: TestPath, sub: string): number => parts.gates.leftMs(sub, "retry_after");

it("a node that did not hear a Retry-After refuses a replay as well, and sends nothing", async () => {
  const { one, other, sub, event, clock } = await rested({ retry: { attempts: 1 } });
  await expect.poll(() => left(other, sub)).toBeGreaterThan(590_000);
  await one.parts.dispatcher.stop(0);
  await other.start();
  // As the breaker's own pause ends, or another replay lifts it.
  await other.storage.queue.pause(sub, 0);
  expect(await other.parts.replay.event("key_1", event)).toBe(1);
  await clock.advance(590_000);
  expect(other.sent).toHaveLength(0);
  await clock.advance(30_000);
  await other.whenSent(1);
  await one[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});
