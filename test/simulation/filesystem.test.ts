// The path under a virtual clock on the real `filesystem()`: each of its calls happens at a moment of the world, and a kill
// falls between any two of them. A failing seed is seen again, with its story, by
// `SEED=<seed> vitest run --config test/vitest.config.ts --root . test/simulation/filesystem.test.ts`; many of them run by
// `npm run simulate -- --storage filesystem --seeds 1000`.
import { describe, expect, it } from "vitest";
import { openSimFolder } from "./folder-disk.ts";
import { simulate } from "./run-seed.ts";
import { replays, seeds } from "./seeds.ts";

describe("the simulated relay on the real filesystem(): killed, frozen, told to stop, on a disk whose calls fail", () => {
  it("keeps its word over 12 seeds", { timeout: 240_000 }, async () => {
    const { requests, accepted } = await seeds("filesystem", 12);
    expect(requests).toBeGreaterThan(12);
    expect(accepted).toBeGreaterThan(12);
  });

  it("sends nothing once a disabling is answered, also where an erasure is looked at meanwhile", async () => {
    await using folder = await openSimFolder();
    await simulate(96_502_520, "filesystem", false, { folder });
  });

  it("lives the same life again under the same seed", { timeout: 240_000 }, () => replays("filesystem", 42));
});
