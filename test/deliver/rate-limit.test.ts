// A subscription's own rate: so many attempts a second, also when the wall clock is set back.
import { afterEach, expect, it, vi } from "vitest";
import { createRateLimit } from "../../core/deliver/rate-limit.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { testPath } from "../support/path.ts";
import { until } from "../support/until.ts";

const slow = { id: "sub_1", rateLimit: { perSecond: 0.01 } };
afterEach(() => void vi.restoreAllMocks());

it("lets one attempt through, and says how long the next one waits", async () => {
  const limit = createRateLimit(systemClock());
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 100_000]);
  expect(await limit.admit({ id: "sub_2", rateLimit: slow.rateLimit })).toBeUndefined();
  expect(limit.admit({ id: "sub_3" })).toBeUndefined();
});

it("lets through what is asked for beyond what bottleneck passes singly", async () => {
  const now = Date.now();
  vi.spyOn(Date, "now").mockImplementation(() => now);
  const limit = createRateLimit(systemClock());
  const fast = { id: "sub_1", rateLimit: { perSecond: 1_000 } };
  const admitted = await Promise.all(Array.from({ length: 12 }, async () => await limit.admit(fast)));
  expect(admitted).toEqual([...Array.from({ length: 10 }, () => undefined), 10, 10]);
});

it("goes by the rate that the subscription has now", async () => {
  const limit = createRateLimit(systemClock());
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 100_000]);
  const faster = { id: "sub_1", rateLimit: { perSecond: 0.1 } };
  expect([await limit.admit(faster), await limit.admit(faster)]).toEqual([undefined, 10_000]);
});

it("stops no subscription when the wall clock is set back", async () => {
  const limit = createRateLimit(systemClock());
  await limit.admit(slow);
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 100_000]);
});

it("ends no pause that another node has set for the receiver", async () => {
  await using test = await testPath();
  const options = { url: "https://receiver.example/hook", events: ["deposit:paid"], rateLimit: { perSecond: 100 } };
  const { subscription } = await test.parts.subscriptions.create("key_1", options, { sub: "tester" });
  const { queue } = test.storage;
  const claim = queue.claim.bind(queue);
  let paused = false;
  queue.claim = async (request) => {
    const leases = await claim(request);
    // The other node hears the receiver's Retry-After when this one has claimed some already.
    if (leases.length > 1 && !paused) await queue.pause(subscription.id, 600_000);
    paused ||= leases.length > 1;
    return leases;
  };
  for (let i = 0; i < 3; i++) await test.publish();
  // Bottleneck counts by it: the second one is refused, however slow the machine is.
  const now = Date.now();
  vi.spyOn(Date, "now").mockImplementation(() => now);
  await test.start();
  await test.whenSent(1);
  vi.restoreAllMocks();
  // Bottleneck's own time goes on as well, so that only the pause is in the way.
  for (let second = 0; second < 60; second++) {
    await test.clock.advance(1_000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect([paused, test.sent.length]).toEqual([true, 1]);
  await until(async () => {
    await test.clock.advance(60_000);
    return test.sent.length === 3;
  });
});
