// The path under a virtual clock, made by a seed alone. A failing one is seen again, with its story, by
// `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/single.test.ts`.
import { describe, expect, it } from "vitest";
import { replays, seeds } from "./seeds.ts";

describe("the simulated relay with one node: killed, frozen, told to stop, on a disk that loses what was not synced", () => {
  it("keeps its word over 250 seeds", { timeout: 240_000 }, async () => {
    const { requests, accepted, turns } = await seeds("single", 250);
    expect(requests).toBeGreaterThan(250);
    expect(accepted).toBeGreaterThan(250);
    // Of ordered subscriptions: none of them is ever out of turn.
    expect(turns).toBeGreaterThan(250);
  });

  it("lives the same life again under the same seed", () => replays("single", 42));
});
