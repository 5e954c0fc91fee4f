// What one node remembers of a receiver, against what storage knows: nothing that is out of date ends a subscription.
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { HEALTH as STREAK } from "../../core/model/schema.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const DAY_MS = 86_400_000;
const HEALTH = { breakerAfter: 20, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 5 * DAY_MS };
const OPTIONS = { retry: { attempts: 1 }, health: HEALTH };

async function deliver(test: TestPath, reply: Parameters<typeof replied>[0]): Promise<void> {
  test.otherwise = replied(reply);
  const before = test.sent.length;
  await test.publish();
  await test.answered(before + 1);
  await test.parts.circuitBreaker.settled();
}

const isActive = async (test: TestPath, id: string): Promise<boolean> =>
  (await test.parts.subscriptionCache.get("key_1", id))?.status === "active";

it("a row that a node left behind neither disables nor pauses a subscription that has succeeded since", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.subscribe();
  await test.storage.commit([
    { op: "put", key: STREAK.key({ subscriptionId: id }), value: String(test.clock.now() - 6 * DAY_MS) },
  ]);
  const other = await testPath({ ...OPTIONS, clock: test.clock, storage: test.storage });
  await using _ = other;
  other.parts.dispatcher.start();
  await deliver(other, 200);
  await other.parts.dispatcher.stop(0);
  await test.start();
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 1, failingSince: test.clock.now() });
  expect(await test.storage.range("health:")).toEqual([]);
});

it("a row by a clock that was ahead does not either", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.subscribe();
  await test.storage.commit([
    { op: "put", key: STREAK.key({ subscriptionId: id }), value: String(test.clock.now() + 30 * DAY_MS) },
  ]);
  await test.parts.circuitBreaker.start();
  await test.clock.advance(6 * DAY_MS);
  const other = await testPath({ ...OPTIONS, clock: test.clock, storage: test.storage });
  await using _ = other;
  other.parts.dispatcher.start();
  await deliver(other, 200);
  await other.parts.dispatcher.stop(0);
  test.parts.dispatcher.start();
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 1, failingSince: test.clock.now() });
});

it("a row that was taken away meanwhile does not either", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.subscribe();
  await test.storage.commit([
    { op: "put", key: STREAK.key({ subscriptionId: id }), value: String(test.clock.now() - 6 * DAY_MS) },
  ]);
  await test.start();
  await test.storage.commit([{ op: "delete", key: STREAK.key({ subscriptionId: id }) }]);
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  expect(test.parts.circuitBreaker.state(id)).toMatchObject({ failures: 1 });
});

it("what only failed for five days is disabled after a restart, at its first failure", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.subscribe();
  await test.storage.commit([
    { op: "put", key: STREAK.key({ subscriptionId: id }), value: String(test.clock.now() - 6 * DAY_MS) },
  ]);
  await test.start();
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(false);
});

it("the days in which no relay was at work do not count, nor does a clock that is ahead at the start", async () => {
  await using before = await testPath(OPTIONS);
  const id = await before.subscribe();
  await before.storage.commit([
    { op: "put", key: STREAK.key({ subscriptionId: id }), value: String(before.clock.now()) },
  ]);
  await before.start();
  await deliver(before, 500);
  await before.clock.advance(DAY_MS);
  await deliver(before, 500);
  await before.parts.dispatcher.stop(0);
  await before.clock.step(6 * DAY_MS);
  await before.clock.advance(61_000);
  const { clock, storage } = before;
  await using test = await testPath({ ...OPTIONS, clock, storage });
  await test.start();
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  await clock.advance(3 * DAY_MS);
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  await clock.advance(DAY_MS);
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(false);
});

it("a receiver that is well for another node is not disabled by the one that sees its failures", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.open();
  await deliver(test, 500);
  await test.clock.advance(2 * DAY_MS);
  await test.parts.dispatcher.stop(0);
  const other = await testPath({ ...OPTIONS, clock: test.clock, storage: test.storage });
  await using _ = other;
  other.parts.dispatcher.start();
  await deliver(other, 200);
  await other.parts.dispatcher.stop(0);
  await test.clock.advance(4 * DAY_MS);
  const sub = await test.subscription(id);
  const attempt = { cycle: 0, number: 1, startedAt: test.clock.now(), durationMs: 1, statusCode: 500 };
  test.parts.circuitBreaker.attempted(sub, { ordinal: "x" } as never, attempt, { kind: "exhausted" });
  await test.parts.circuitBreaker.settled();
  expect(await isActive(test, id)).toBe(true);
  expect(test.parts.circuitBreaker.state(id)).toEqual({ failures: 0 });
});

it("a subscription that could not be disabled is disabled at its next failure, not five days later", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.open();
  await deliver(test, 500);
  await test.clock.advance(6 * DAY_MS);
  const { commit } = test.storage;
  test.storage.commit = async (changes) => {
    if (changes.some(({ key }) => key.startsWith("subscription:"))) throw new StorageError("unavailable", "away");
    return commit(changes);
  };
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(true);
  test.storage.commit = commit;
  await deliver(test, 500);
  expect(await isActive(test, id)).toBe(false);
});

it("five time-outs in a row open the breaker, where other failures take twenty", async () => {
  await using test = await testPath(OPTIONS);
  const id = await test.open();
  for (let i = 0; i < 19; i++) await deliver(test, 500);
  const rests = (): boolean => test.parts.circuitBreaker.state(id).restsUntil !== undefined;
  expect(rests()).toBe(false);
  await deliver(test, 200);
  for (let i = 1; i <= 5; i++) {
    test.otherwise = { kind: "error", error: "timeout", detail: "too late" };
    await test.publish();
    await test.answered(20 + i);
    expect(rests()).toBe(i === 5);
  }
});
