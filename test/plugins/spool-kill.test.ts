// A relay with a spool that is killed again and again in mid-file: a ledger of all events.
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { testFolder } from "../support/folder.ts";
import { expectNothingLost } from "../support/ledger.ts";

const FILES = 10;
const EVENTS = 1_500;

it("stores every event of every file once when it is killed again and again", async () => {
  const folder = testFolder();
  const dir = join(folder, "drop");
  await mkdir(join(dir, "done"), { recursive: true });
  for (let file = 0; file < FILES; file++) {
    const line = (_: unknown, i: number): string =>
      `{"type":"deposit:paid","keyId":"key_1","data":${file * EVENTS + i}}\n`;
    await writeFile(join(dir, `0${file}.ndjson`), Array.from({ length: EVENTS }, line).join(""));
  }
  await expectNothingLost({
    folder,
    source: `spool({ dir: ${JSON.stringify(dir)} })`,
    imports: ["spool"],
    total: FILES * EVENTS,
    kills: 4,
    left: async () => (FILES - (await readdir(join(dir, "done"))).length) * EVENTS,
  });
}, 240_000);
