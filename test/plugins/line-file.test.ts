// Lines that are added to one file of `toFile()`.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { LineFile } from "../../plugins/transport/file/line-file.ts";
import { testFolder } from "../support/folder.ts";

const dir = testFolder();
const clock = systemClock();

it("are written however soon one comes after those that were just written", async () => {
  // The next one comes so many turns of the promise queue after the last one is on the disk.
  for (let turns = 0; turns < 8; turns++) {
    const file = new LineFile(`after-${turns}`, { dir, maxBytes: 1_000, keep: undefined, clock });
    await file.append(Buffer.from("1\n"), () => false);
    for (let i = 0; i < turns; i++) await Promise.resolve();
    const second = file.append(Buffer.from("2\n"), () => false);
    await Promise.race([second, clock.sleep(clock.now() + 1_000)]);
    await file.close();
    expect(readFileSync(join(dir, `after-${turns}.ndjson`), "utf8"), `${turns} turns after`).toBe("1\n2\n");
  }
});
