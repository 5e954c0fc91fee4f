// The path under a virtual clock on the real `filesystem()`: each of its calls happens at a moment of the world, and a kill
// falls between any two of them.
import { it } from "vitest";
import { openReal, simulate } from "./run-seed.ts";
import { describeSeeds } from "./seeds.ts";

const what = "on the real filesystem(): killed, frozen, told to stop, on a disk whose calls fail";
describeSeeds("filesystem", 6, what, undefined, () => {
  it("sends nothing once a disabling is answered, also where an erasure is looked at meanwhile", async () => {
    await using real = await openReal("filesystem");
    await simulate(96_502_520, "filesystem", false, real);
  });
});
