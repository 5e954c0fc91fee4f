/** Laws of simulated relays over many seeds, or over the one that SEED names, with its story. */
import { describe, expect, it } from "vitest";
import { openReal, simulate, type SimKind } from "./run-seed.ts";

const only = process.env["SEED"];
/** As many requests and accepted events at least: a simulation in which nothing happens proves nothing. */
const LEAST = 10;

/**
 * A failing seed is seen again by `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/<kind>.test.ts`;
 * many of them run by `npm run simulate -- --storage <kind> --seeds 1000`.
 * @param missing why there is no such relay here
 * @param more registers the tests of this kind alone
 */
export function describeSeeds(kind: SimKind, count: number, what: string, missing?: string, more?: () => void): void {
  describe(`the simulated relay ${what}`, () => {
    it(`keeps its word over ${count} seeds`, { timeout: 240_000 }, async ({ skip }) => {
      skip(missing !== undefined, missing);
      await using real = await openReal(kind);
      if (only !== undefined) {
        const { story } = await simulate(Number(only), kind, true, real);
        process.stderr.write(`${story.join("\n")}\n`);
        return;
      }
      const sums = { requests: 0, accepted: 0, turns: 0 };
      for (let seed = 1; seed <= count; seed++) {
        const { requests, accepted, turns } = await simulate(seed, kind, false, real);
        sums.requests += requests;
        sums.accepted += accepted;
        sums.turns += turns;
      }
      const least = Math.max(count, LEAST);
      expect(sums.requests).toBeGreaterThan(least);
      expect(sums.accepted).toBeGreaterThan(least);
      // Of ordered subscriptions: none of them is ever out of turn. Few seeds may have none.
      if (count >= 50) expect(sums.turns).toBeGreaterThan(count);
    });

    it("lives the same life again under the same seed", { timeout: 240_000 }, async ({ skip }) => {
      skip(missing !== undefined, missing);
      await using real = await openReal(kind);
      const first = await simulate(42, kind, true, real);
      const again = await simulate(42, kind, true, real);
      expect(again.digest).toBe(first.digest);
      expect(again.story).toEqual(first.story);
    });
    more?.();
  });
}
