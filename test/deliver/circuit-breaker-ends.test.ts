// What is remembered of a subscription's health ends with it.
import { expect, it } from "vitest";
import { replied, testPath } from "../support/path.ts";

const HEALTH = { breakerAfter: 3, breakerPauseMs: 60_000, breakerMaxPauseMs: 60_000, disableAfterMs: 432_000_000 };

it("a deleted subscription leaves no health behind, in storage or in memory", async () => {
  await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
  test.otherwise = replied(500);
  const sub = await test.subscribe();
  for (let i = 0; i < 3; i++) await test.publish();
  await test.start();
  await test.answered(3);
  await test.parts.circuitBreaker.settled();
  expect(await test.storage.range("health:")).toHaveLength(1);
  await test.parts.subscriptions.remove("key_1", sub, { sub: "t" });
  expect(await test.storage.range("health:")).toEqual([]);
  expect(test.parts.circuitBreaker.state(sub)).toEqual({ failures: 0 });
});

it.each(["enabled", "deleted"])(
  "a subscription that the breaker disabled leaves no health behind once it is %s",
  async (what) => {
    await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
    test.otherwise = replied(500);
    const sub = await test.open();
    for (let i = 0; i < 4; i++) {
      // The last one fails after it has only failed for five days.
      if (i === 3) await test.clock.advance(2 * HEALTH.disableAfterMs);
      await test.publish();
      await test.answered(i + 1);
      await test.parts.circuitBreaker.settled();
    }
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({ status: "disabled" });
    if (what === "enabled") await test.parts.subscriptions.update("key_1", sub, { status: "active" }, { sub: "t" });
    else await test.parts.subscriptions.remove("key_1", sub, { sub: "t" });
    expect(await test.storage.range("health:")).toEqual([]);
  },
);

it("a clock that is set, forwards or back, neither hastens nor delays that a failing subscription is disabled", async () => {
  await using test = await testPath({ retry: { attempts: 1 }, health: HEALTH });
  test.otherwise = replied(500);
  const sub = await test.open();
  let sent = 0;
  const fail = async (): Promise<unknown> => {
    await test.publish();
    await test.answered(++sent);
    await test.parts.circuitBreaker.settled();
    return (await test.parts.subscriptionCache.get("key_1", sub))?.status;
  };
  await fail();
  await test.clock.step(2 * HEALTH.disableAfterMs);
  expect(await fail()).toBe("active");
  await test.clock.step(-4 * HEALTH.disableAfterMs);
  await test.clock.advance(HEALTH.disableAfterMs);
  expect(await fail()).toBe("disabled");
});
