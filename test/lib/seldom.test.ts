// Counts that take long are shared, and not made all the time.
import { expect, it } from "vitest";
import { seldom } from "../../core/lib/seldom.ts";
import { testClock } from "../support/clock.ts";

it("a count that takes long is not begun again by those who ask meanwhile", async () => {
  const clock = testClock();
  const counts: PromiseWithResolvers<number>[] = [];
  const counted = seldom(() => {
    const one = Promise.withResolvers<number>();
    counts.push(one);
    return one.promise;
  }, clock);
  const asked = Array.from({ length: 100 }, () => counted());
  expect(counts).toHaveLength(1);
  await clock.advance(1_000);
  counts[0]?.resolve(7);
  expect(new Set(await Promise.all(asked))).toEqual(new Set([7]));
  await clock.advance(19_000);
  expect(await counted()).toBe(7);
  await clock.advance(1_000);
  void counted();
  expect(counts).toHaveLength(2);
});

it("a count that failed is made again by the next who asks", async () => {
  const clock = testClock();
  let failed = 0;
  const counted = seldom(async () => {
    if (failed++ === 0) throw new Error("not now");
    return 3;
  }, clock);
  await expect(counted()).rejects.toThrow("not now");
  expect(await counted()).toBe(3);
});

it("a count that is never answered keeps nobody from the next one", async () => {
  const clock = testClock();
  let counts = 0;
  const counted = seldom(() => (counts++ === 0 ? new Promise<number>(() => {}) : Promise.resolve(5)), clock);
  void counted();
  await clock.advance(60_000);
  expect(await counted()).toBe(5);
});
