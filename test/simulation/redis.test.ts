// The path under a virtual clock with a real Redis: its scripts, made by a seed alone. A failing one is seen again, with its
// story, by `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/redis.test.ts`; many of them run
// by `npm run simulate -- --storage redis --seeds 1000`.
import { describe, expect, it } from "vitest";
import { needs } from "../support/needs.ts";
import { replays, seeds } from "./seeds.ts";

const missing = needs("redis");

describe("the simulated relay with several nodes on a real Redis: killed, frozen, cut off", () => {
  it("keeps its word over 6 seeds", { timeout: 240_000 }, async ({ skip }) => {
    skip(missing !== undefined, missing);
    const { requests, accepted } = await seeds("redis", 6);
    expect(requests).toBeGreaterThan(10);
    expect(accepted).toBeGreaterThan(10);
  });

  it("lives the same life again under the same seed", { timeout: 240_000 }, ({ skip }) => {
    skip(missing !== undefined, missing);
    return replays("redis", 42);
  });
});
