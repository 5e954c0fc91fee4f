// Guesses at codes on several nodes at once: together they try no more than one of them would.
import { describe, expect, it } from "vitest";
import { Limiter } from "../../core/limits/limiter.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Counters } from "../../core/ports/storage.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { testClock } from "../support/clock.ts";

/** Eight nodes on shared counters, which answer some turns later. */
function eightNodes() {
  const clock = testClock();
  const shared = createCounters(clock);
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const counters: Counters = {
    take: async (takes) => (await turn(), shared.take(takes)),
    giveBack: async (takes, taken) => (await turn(), shared.giveBack(takes, taken)),
  };
  const nodes = Array.from({ length: 8 }, () => new Limiter({ counters, rows: {}, abuse: false, clock }));
  return { clock, turn, nodes };
}

describe("guesses on several nodes at once", () => {
  it("are at most two beyond the ten that suspend", async () => {
    const { turn, nodes } = eightNodes();
    let tried = 0;
    const wrong = async (): Promise<never> => {
      tried++;
      await turn();
      throw new Problem("UNAUTHENTICATED", "wrong");
    };
    for (let round = 0; round < 10; round++)
      await Promise.allSettled(
        nodes.flatMap((node) => [1, 2, 3].map(() => node.guess("POST /auth/step-up", "ana", wrong))),
      );
    expect(tried).toBeGreaterThanOrEqual(10);
    expect(tried).toBeLessThanOrEqual(12);
    await expect(nodes[0]?.guess("POST /auth/step-up", "ana", wrong)).rejects.toThrow(/Too many wrong codes/);
  });

  it("one after another are never too many at once, and one that got lost is forgotten", async () => {
    const { clock, nodes } = eightNodes();
    const right = async (): Promise<string> => "right";
    const guess = (n: number, attempt: () => Promise<string>) =>
      (nodes[n % 8] as (typeof nodes)[number]).guess("POST /auth/login", "bob", attempt);
    for (let n = 0; n < 20; n++) expect(await guess(n, right)).toBe("right");
    for (let n = 0; n < 3; n++) void guess(n, () => new Promise<never>(() => undefined));
    await expect(guess(3, right)).rejects.toMatchObject({ code: "BURST_EXCEEDED" });
    await clock.advance(5_000);
    expect(await guess(4, right)).toBe("right");
  });
});
