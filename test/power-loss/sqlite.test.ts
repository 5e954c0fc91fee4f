import { describe, expect, it } from "vitest";
import { needs } from "../support/needs.ts";
import { scratchFolders } from "./scratch.ts";
import { PATIENCE_MS } from "./replay.ts";
import { cutLife, recordLife, type Part } from "./storage.ts";

const missing = needs("strace");
const fresh = scratchFolders();

async function wrongAfter(...parts: readonly Part[]): Promise<readonly string[]> {
  const { states, wrong } = await cutLife(await recordLife("sqlite", fresh(), ...parts), { moments: 10, chance: 2 });
  expect(states).toBeGreaterThan(40);
  return wrong;
}

describe("sqlite() and a power cut", { timeout: PATIENCE_MS }, () => {
  it("has all that it acknowledged, whatever was not synced", async ({ skip }) => {
    skip(missing !== undefined, missing);
    expect(await wrongAfter({ script: "steady" })).toEqual([]);
  });

  // The thread's first fourteen syncs are those of opening a new database.
  it("has all that it acknowledged after a sync failed", async ({ skip }) => {
    skip(missing !== undefined, missing);
    expect(await wrongAfter({ script: "steady", inject: ["fsync,fdatasync:error=EIO:when=16"] })).toEqual([]);
  });

  it("has what it put behind commits whose sync failed as the process was killed, and no half of those", async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    const inject = ["fsync,fdatasync:signal=SIGKILL:when=17"];
    expect(await wrongAfter({ script: "steady", inject }, { script: "again" })).toEqual([]);
  });

  it("has no half of a commit whose sync failed as the process was killed, however far the next one came with it", async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    const inject = ["fsync,fdatasync:signal=SIGKILL:when=16"];
    const recorded = await recordLife("sqlite", fresh(), { script: "apart", inject }, { script: "again" });
    const [first, second] = recorded.parts;
    // The opening decides it.
    const opened = second?.steps.findIndex((step) => step.op === "say" && step.line === "do 0 0");
    const parts = [first, { ...second, steps: second?.steps.slice(0, opened) }] as typeof recorded.parts;
    expect((await cutLife({ ...recorded, parts }, { moments: 12 })).wrong).toEqual([]);
  });
});
