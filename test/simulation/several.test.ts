// The path under a virtual clock, made by a seed alone. A failing one is seen again, with its story, by
// `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/several.test.ts`.
import { describe, expect, it } from "vitest";
import { replays, seeds } from "./seeds.ts";

describe("the simulated relay with several nodes: killed, frozen, cut off, on one shared store with leases that lapse", () => {
  it("keeps its word over 100 seeds", { timeout: 240_000 }, async () => {
    const { requests, accepted, turns } = await seeds("several", 100);
    expect(requests).toBeGreaterThan(100);
    expect(accepted).toBeGreaterThan(100);
    // Of ordered subscriptions: none of them is ever out of turn.
    expect(turns).toBeGreaterThan(100);
  });

  it("lives the same life again under the same seed", () => replays("several", 42));
});
