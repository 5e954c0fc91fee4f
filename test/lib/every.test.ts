import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { every } from "../../core/lib/every.ts";
import { testClock } from "../support/clock.ts";

describe("work by the clock", () => {
  it("is done each time that so long has passed since it ended, until the signal aborts", async () => {
    const clock = testClock();
    const stopping = new AbortController();
    const began: number[] = [];
    const start = clock.now();
    const over = every(
      clock,
      1_000,
      async () => {
        began.push(clock.now() - start);
        await clock.sleep(clock.now() + 500);
      },
      stopping.signal,
    );
    for (let i = 0; i < 40; i++) await clock.advance(100);
    expect(began).toEqual([1_000, 2_500, 4_000]);
    stopping.abort();
    await clock.advance(1_000);
    await over;
    expect(began).toHaveLength(3);
    expect(getEventListeners(stopping.signal, "abort")).toHaveLength(0);
  });

  it("ends with what the work throws", async () => {
    const clock = testClock();
    const over = every(clock, 10, () => Promise.reject(new Error("broken")), new AbortController().signal);
    const refused = expect(over).rejects.toThrow("broken");
    await clock.advance(10);
    await refused;
  });
});
