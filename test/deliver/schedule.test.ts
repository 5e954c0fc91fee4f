// A schedule of waits that is kept over days.
import { describe, expect, it } from "vitest";
import { scheduleOf } from "../../core/model/subscription.ts";
import { replied, testPath } from "../support/path.ts";

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
