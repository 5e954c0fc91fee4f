// The path under a virtual clock, made by a seed alone. A failing one is seen again, with its story, by
// `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/threads.test.ts`.
import { describe, expect, it } from "vitest";
import { simulate } from "./run-seed.ts";
import { replays, seeds } from "./seeds.ts";

describe("the simulated relay with threads: each killed, frozen, stopped, on one disk that one of them holds", () => {
  it("keeps its word over 60 seeds", { timeout: 240_000 }, async () => {
    const { requests, accepted } = await seeds("threads", 60);
    expect(requests).toBeGreaterThan(60);
    expect(accepted).toBeGreaterThan(60);
  });

  it("sends nothing of an event that was erased while its thread was frozen", async () => {
    await simulate(98_301_385, "threads", false, {});
  });

  it("counts a retry's wait from the result that was stored, when its attempt was sent again", async () => {
    await simulate(98_302_673, "threads", false, {});
  });

  it("lives the same life again under the same seed", () => replays("threads", 42));
});
