import { describe, expect, it } from "vitest";
import { needs } from "../support/needs.ts";
import { scratchFolders } from "./scratch.ts";
import { PATIENCE_MS } from "./replay.ts";
import { cutLife, recordLife, type Part } from "./storage.ts";

const missing = needs("strace");
const fresh = scratchFolders();

async function wrongAfter(...parts: readonly Part[]): Promise<readonly string[]> {
  // Two lives have more moments: fewer do not find a folder of the journal that is not synced when a segment goes.
  const more = parts.length > 1 ? { moments: 16 } : {};
  const { states, wrong } = await cutLife(await recordLife("filesystem", fresh(), ...parts), more);
  expect(states).toBeGreaterThan(50);
  return wrong;
}

describe("filesystem() and a power cut", { timeout: PATIENCE_MS }, () => {
  for (const script of ["steady", "folders"] as const) {
    it(`has all that it acknowledged, whatever was not synced (${script})`, async ({ skip }) => {
      skip(missing !== undefined, missing);
      expect(await wrongAfter({ script })).toEqual([]);
    });
  }

  it("has no half of a commit that a killed process had only begun to sync, and the next process found", async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    const inject = ["fdatasync:signal=SIGKILL:when=5"];
    expect(await wrongAfter({ script: "steady", inject }, { script: "again" })).toEqual([]);
  });

  it("has what it put into folders that a killed process had made", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const inject = ["rename:signal=SIGKILL:when=4"];
    expect(await wrongAfter({ script: "steady", inject }, { script: "again" })).toEqual([]);
  });

  for (const [what, inject] of [
    ["sync", "fdatasync:error=EIO:when=4"],
    ["sync and the cut after it", "fdatasync,ftruncate:error=EIO:when=4"],
    ["write", "pwrite64:error=EIO:when=6"],
  ] as const) {
    it(`has nothing of what it refused because a ${what} failed`, async ({ skip }) => {
      skip(missing !== undefined, missing);
      expect(await wrongAfter({ script: "steady", inject: [inject] })).toEqual([]);
    });
  }
});
