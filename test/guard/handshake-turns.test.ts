import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import { handshakeTurns } from "../../core/guard/handshake-turns.ts";
import { testClock } from "../support/clock.ts";

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("new connections", () => {
  it("begin one at a time, in order, with a turn of the event loop between them, and none is forgotten", async () => {
    const may = handshakeTurns();
    const begun: number[] = [];
    for (let i = 0; i < 7; i++) void may().then(() => begun.push(i));
    await Promise.resolve();
    expect(begun).toEqual([0]);
    const sizes = [1];
    for (let i = 0; begun.length < 7 && i < 40; i++) {
      await turn();
      sizes.push(begun.length);
    }
    expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6]);
    // In no two turns that follow each other did more than one begin.
    expect(sizes.slice(2).every((size, i) => size - (sizes[i] as number) <= 1)).toBe(true);
  });

  it("begin at once when there are few, also after a burst", async () => {
    const may = handshakeTurns();
    await Promise.all(Array.from({ length: 9 }, () => may()));
    for (let i = 0; i < 5; i++) await turn();
    let begun = false;
    void may().then(() => (begun = true));
    await Promise.resolve();
    expect(begun).toBe(true);
  });

  it("of TLS are the ones that the connector spreads out", async () => {
    const dialled: number[] = [];
    const dial = (_: string, port: number): Socket => (dialled.push(port), new Socket());
    const guard = createGuard({ allow: ["127.0.0.1:*"], ports: [443], clock: testClock(), dial });
    const { signal } = new AbortController();
    for (const [port, tls] of [
      [1, true],
      [2, true],
      [3, false],
      [4, false],
    ] as const)
      // prettier-ignore
      void guard.connect({ hostname: "127.0.0.1", port, tls }, signal);
    for (let n = 0; n < 20; n++) await Promise.resolve();
    expect(dialled.toSorted()).toEqual([1, 3, 4]);
    for (let n = 0; n < 5; n++) await turn();
    expect(dialled).toContain(2);
  });
});
