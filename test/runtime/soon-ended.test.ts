import { describe, expect, it } from "vitest";
import { createSoonEnded } from "../../core/runtime/threads/soon-ended.ts";

describe("a thread that ends soon after its start, again and again", () => {
  it("is started again after pauses that grow up to half a minute, although it served each time", () => {
    const ends = createSoonEnded();
    const pauses = Array.from({ length: 8 }, () => {
      ends.ended(1, 2_000);
      return ends.pauseMs(1);
    });
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    expect(ends.times(1)).toBe(8);
    expect(ends.pauseMs(0)).toBe(0);
  });

  it("is started again at once when it had lived for a minute, and its pauses begin again", () => {
    const ends = createSoonEnded();
    for (let n = 0; n < 4; n++) ends.ended(0, 10);
    ends.ended(0, 60_000);
    expect(ends.pauseMs(0)).toBe(0);
    ends.ended(0, 10);
    expect(ends.pauseMs(0)).toBe(1_000);
  });
});
