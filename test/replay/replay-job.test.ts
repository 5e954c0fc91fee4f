// Whose failed deliveries the replay job takes, and when it stops with a subscription.
import { expect, it } from "vitest";
import { FAILED } from "../../core/model/schema.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { until } from "../support/until.ts";

const HOUR_MS = 3_600_000;
const JOB = { olderThanMs: 600_000, maxAgeMs: 72 * HOUR_MS, maxReplays: 24, limit: 10, perSecond: 1_000 };
const run = (test: TestPath, over: object = {}): Promise<number> =>
  test.parts.replayJob({ ...JOB, ...over }, new AbortController().signal);

it("begins behind the one that was served last, so that one that fails all the time leaves the others their turn", async () => {
  await using test = await testPath({ retry: { attempts: 1 } });
  const owners = new Map<string, string>();
  for (const keyId of ["key_a", "key_b", "key_c"]) owners.set(await test.subscribe(["*"], keyId), keyId);
  const ids = [...owners.keys()].toSorted();
  const [, always = "", well = ""] = ids;
  test.otherwise = replied(500);
  await test.start();
  for (const id of ids)
    for (let i = 0; i < (id === always ? 12 : 1); i++) await test.publish("deposit:paid", { keyId: owners.get(id) });
  await test.whenSent(14);
  test.otherwise = async ({ subscriptionId }) => replied(subscriptionId === always ? 500 : 200);
  const moved: number[] = [];
  for (let runs = 0; runs < 3; runs++) {
    await test.clock.advance(HOUR_MS);
    moved.push(await run(test));
    await test.clock.advance(HOUR_MS);
  }
  // The one before it goes first; then comes the one behind it, and what is left is of the one that fails.
  expect(moved).toEqual([10, 10, 10]);
  expect(await test.storage.range(FAILED.under({ subscriptionId: well }))).toEqual([]);
  expect(await test.storage.range(FAILED.under({ subscriptionId: ids[0] ?? "" }))).toEqual([]);
  expect(await test.storage.range(FAILED.under({ subscriptionId: always }))).toHaveLength(12);
});

it.each(["disabled", "enabled again"])("leaves what failed as it is once its subscription is %s", async (what) => {
  await using test = await testPath({ retry: { attempts: 1 } });
  const id = await test.subscribe();
  test.otherwise = replied(500);
  await test.start();
  for (let i = 0; i < 120; i++) await test.publish();
  await test.whenSent(120);
  await test.clock.advance(HOUR_MS);
  await test.parts.dispatcher.stop(0);
  const { commit } = test.storage;
  test.storage.commit = async (changes) => {
    await commit(changes);
    // Right after the first page of the job.
    test.storage.commit = commit;
    for (const status of what === "disabled" ? (["disabled"] as const) : (["disabled", "active"] as const))
      await test.parts.subscriptions.update("key_1", id, { status }, { sub: "t" });
  };
  expect(await run(test, { limit: 1_000 })).toBe(100);
  // Those that the job has moved fail with their subscription.
  const failed = await test.storage.range(FAILED.under({ subscriptionId: id }), { limit: 200 });
  expect(failed.filter(({ value }) => value.includes(" exhausted "))).toHaveLength(20);
});

async function failOne(test: TestPath): Promise<void> {
  await test.publish();
  await until(async () => (await test.storage.range("failed:")).length === 1);
}

it("does not wait for the time at which a delivery failed by a clock that was a day ahead", async () => {
  await using test = await testPath({ retry: { attempts: 1 } });
  await test.subscribe();
  test.otherwise = replied(500);
  await test.start();
  await test.clock.step(24 * HOUR_MS);
  await failOne(test);
  await test.clock.step(-24 * HOUR_MS);
  await test.clock.advance(HOUR_MS);
  expect(await run(test)).toBe(1);
});

it("passes over nothing for what it took for too old by a clock that was a month ahead", async () => {
  await using test = await testPath({ retry: { attempts: 1 } });
  await test.subscribe();
  test.otherwise = replied(500);
  await test.start();
  await failOne(test);
  await test.clock.step(30 * 24 * HOUR_MS);
  expect(await run(test)).toBe(0);
  await test.clock.step(-30 * 24 * HOUR_MS);
  await test.clock.advance(HOUR_MS);
  expect(await run(test)).toBe(1);
});
