// The path under a virtual clock on the real `sqlite()`: its thread takes each batch at a moment of the world, and a kill
// falls before it, or behind its commit and before its answer. A failing seed is seen again, with its story, by
// `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/sqlite.test.ts`; many of them run by
// `npm run simulate -- --storage sqlite --seeds 1000`.
import { describe, expect, it } from "vitest";
import { replays, seeds } from "./seeds.ts";

describe("the simulated relay on the real sqlite(): killed, frozen, told to stop, on a disk that fails", () => {
  it("delivers what its thread has stored, and keeps its word over 20 seeds", { timeout: 240_000 }, async () => {
    const { requests, accepted } = await seeds("sqlite", 20);
    expect(requests).toBeGreaterThan(20);
    expect(accepted).toBeGreaterThan(20);
  });

  it("lives the same life again under the same seed", { timeout: 240_000 }, () => replays("sqlite", 8));
});
