import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { groupBytes, headerLine, type Write } from "../../plugins/storage/unstorage/journal-lines.ts";
import { testClock } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";

const fresh = testFolders();
const opened: Storage[] = [];
let log = quietLog();
async function open(dir: string): Promise<Storage> {
  log = quietLog();
  const storage = await filesystem({ dir }).setup(pluginContext(testClock(), dir, { log }));
  opened.push(storage);
  return storage;
}
afterEach(async () => {
  for (const storage of opened.splice(0)) await storage.dispose();
});
const told = (): readonly string[] =>
  log.lines.filter(({ level }) => level === "error").map(({ fields }) => String(fields["why"]));
const quarantined = (dir: string): readonly string[] => readdirSync(join(dir, "quarantine"));
const key = (n: number): string => `event:k:${String(n).padStart(6, "0")}`;

describe("the journal of filesystem() after a power cut", () => {
  const group = (...commits: readonly (readonly Write[])[]): Buffer => groupBytes(commits);
  const event = (n: number): readonly Write[] => [[key(n), `v${n}`.padEnd(700, "e")]];
  /** A folder whose journal is left as given. */
  async function left(...segments: readonly Buffer[]): Promise<string> {
    const dir = fresh();
    await (await open(dir)).dispose();
    for (const name of readdirSync(join(dir, "journal"))) truncateSync(join(dir, "journal", name), 0);
    for (const [index, bytes] of segments.entries())
      writeFileSync(
        join(dir, "journal", `0000009${index}.ndjson`),
        Buffer.concat([Buffer.from(headerLine(90 + index)), bytes]),
      );
    return dir;
  }
  const holed = (bytes: Buffer, text: string): Buffer => {
    const copy = Buffer.from(bytes);
    copy.fill(0, copy.indexOf(text), copy.indexOf(text) + 300);
    return copy;
  };
  const events = async (dir: string): Promise<readonly string[]> => (await open(dir)).getKeys("event:", {});

  it("counts nothing behind a hole in its last group: nobody was told of it, and it may build upon what is missing", async () => {
    const dir = await left(Buffer.concat([group(event(1)), holed(group(event(2), event(3), event(4)), "v3")]));
    expect(await events(dir)).toEqual([key(1), key(2)]);
    expect(told()).toEqual(["the torn end of the journal, never acknowledged"]);
  });

  it("counts everything else when a group follows the hole: it was synced, and harmed later", async () => {
    const dir = await left(Buffer.concat([holed(group(event(1), event(2), event(3)), "v2"), group(event(4))]));
    expect(await events(dir)).toEqual([key(1), key(3), key(4)]);
    expect(told()).toEqual(["a damaged line of the journal: a commit may be lost"]);
  });

  it("counts everything else when a segment follows the hole", async () => {
    const dir = await left(holed(group(event(1), event(2), event(3)), "v2"), group(event(4)));
    expect(await events(dir)).toEqual([key(1), key(3), key(4)]);
    expect(told()).toEqual(["a damaged line of the journal: a commit may be lost"]);
  });

  it("keeps one copy of a torn end, however often the start is repeated", async () => {
    const dir = await left(holed(group(event(1), event(2)), "v2"));
    const journal = join(dir, "journal", "00000090.ndjson");
    const bytes = readFileSync(journal);
    for (let i = 0; i < 3; i++) {
      writeFileSync(journal, bytes);
      await (await open(dir)).dispose();
    }
    expect(quarantined(dir)).toHaveLength(1);
  });
});
