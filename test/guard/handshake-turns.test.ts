import { describe, expect, it } from "vitest";
import { handshakeTurns } from "../../core/guard/handshake-turns.ts";

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("new connections", () => {
  it("begin a few in each turn of the event loop, in order, and none is forgotten", async () => {
    const may = handshakeTurns(2);
    const begun: number[] = [];
    for (let i = 0; i < 7; i++) void may().then(() => begun.push(i));
    await Promise.resolve();
    expect(begun).toEqual([0, 1]);
    const sizes: number[] = [];
    for (let i = 0; begun.length < 7 && i < 20; i++) {
      await turn();
      sizes.push(begun.length);
    }
    expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(sizes.every((size, i) => size - (sizes[i - 1] ?? 2) <= 2)).toBe(true);
  });

  it("begin at once when there are few, also after a burst", async () => {
    const may = handshakeTurns(2);
    await Promise.all(Array.from({ length: 9 }, () => may()));
    for (let i = 0; i < 5; i++) await turn();
    let begun = false;
    void may().then(() => (begun = true));
    await Promise.resolve();
    expect(begun).toBe(true);
  });
});
