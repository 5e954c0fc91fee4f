// A subscription's own rate: so many attempts a second, each thread its part, also when the wall clock is set back.
import { afterEach, expect, it, vi } from "vitest";
import { createRateLimit } from "../../core/deliver/rate-limit.ts";
import { systemClock } from "../../core/runtime/clock.ts";

const slow = { id: "sub_1", rateLimit: { perSecond: 0.01 } };
afterEach(() => void vi.restoreAllMocks());

it("lets one attempt through, and says how long the next one waits", async () => {
  const limit = createRateLimit(systemClock());
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 100_000]);
  expect(await limit.admit({ id: "sub_2", rateLimit: slow.rateLimit })).toBeUndefined();
  expect(limit.admit({ id: "sub_3" })).toBeUndefined();
});

it("is divided among the threads that share it", async () => {
  const limit = createRateLimit(systemClock(), 4);
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 400_000]);
});

it("lets through what is asked for beyond what bottleneck passes singly", async () => {
  const now = Date.now();
  vi.spyOn(Date, "now").mockImplementation(() => now);
  const limit = createRateLimit(systemClock());
  const fast = { id: "sub_1", rateLimit: { perSecond: 1_000 } };
  const admitted = await Promise.all(Array.from({ length: 12 }, async () => await limit.admit(fast)));
  expect(admitted).toEqual([...Array.from({ length: 10 }, () => undefined), 10, 10]);
});

it("stops no subscription when the wall clock is set back", async () => {
  const limit = createRateLimit(systemClock());
  await limit.admit(slow);
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
  expect([await limit.admit(slow), await limit.admit(slow)]).toEqual([undefined, 100_000]);
});
