// The stored list of a wide event's subscriptions cannot be read: what proves itself is sent, and nothing waits for ever.
import { FAILED } from "../../core/model/schema.ts";
import { expect, it } from "vitest";
import { testClock } from "../support/clock.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { publishMany, SMALL, subscribers } from "../support/wide.ts";

const HOUR_MS = 3_600_000;

/** A wide event whose deliveries wait for a retry, or that were never tried; its list is damaged while the relay is off. */
async function damagedList(tried: boolean): Promise<{ test: TestPath; ids: readonly string[] }> {
  const clock = testClock();
  const options = { clock, fanout: SMALL, perKey: 100, retry: { attempts: 3 }, delivery: { holdMs: 0 } };
  const before = await testPath(options);
  before.otherwise = replied(500);
  const ids = await subscribers(before, 8);
  await publishMany(before, 1);
  // Those that were never tried: their connections are away, so that nothing counts.
  if (!tried) before.otherwise = { kind: "unavailable", detail: "away" };
  await before.start();
  await before.whenSent(8);
  await clock.advance(100);
  await before.parts.dispatcher.stop(0);
  await before[Symbol.asyncDispose]();
  const [page] = await before.storage.range("members:");
  await before.storage.commit([{ op: "put", key: page?.key ?? "", value: `${page?.value ?? ""} torn` }]);
  const test = await testPath({ ...options, storage: before.storage });
  await test.start();
  return { test, ids };
}

it("deliveries that were tried before go on", async () => {
  const { test, ids } = await damagedList(true);
  await using _ = test;
  test.otherwise = replied(200);
  await test.clock.advance(HOUR_MS);
  expect(test.sent.map(({ subscriptionId }) => subscriptionId).toSorted()).toEqual(ids);
  expect(await test.storage.range("due:")).toEqual([]);
});

it("those that were never tried end as damaged, and are sent by a replay of their subscription", async () => {
  const { test, ids } = await damagedList(false);
  await using _ = test;
  test.otherwise = replied(200);
  for (let hours = 0; hours < 3; hours++) await test.clock.advance(HOUR_MS);
  expect(test.sent).toEqual([]);
  const failed = await test.storage.range("failed:");
  expect(failed.map(({ key }) => key.split(":")[1])).toEqual(ids);
  expect(new Set(failed.map(({ value }) => FAILED.orThrow(value).reason))).toEqual(new Set(["record_damaged"]));
  expect(await test.storage.range("due:")).toEqual([]);
  const subscription = await test.subscription(ids[0] ?? "");
  expect((await test.parts.replay.failed({ subscription, limit: 10, perSecond: 10 })).replayed).toBe(1);
  await test.clock.advance(1_000);
  expect(test.sent.map(({ subscriptionId }) => subscriptionId)).toEqual([ids[0]]);
});
