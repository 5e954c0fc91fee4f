// Records of earlier versions are taken over whole, also by a start that dies in the middle of it.
import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testFolders } from "../support/folder.ts";
import { oldPath, putOld, writeFormat1 } from "../support/format-1.ts";
import { needs } from "../support/needs.ts";
import { openStorages } from "../support/open-storages.ts";
import { quietLog } from "../support/quiet.ts";
import { name } from "../support/storage-child.ts";
import { inspect, ledger, live, underStrace } from "../support/storage-crash.ts";

const fresh = testFolders();
const openWith = openStorages();
let log = quietLog();
function open(dir: string): Promise<Storage> {
  log = quietLog();
  return openWith(filesystem({ dir }), dir, { log });
}
const all = async (storage: Storage) =>
  Object.fromEntries((await storage.range("", { limit: 10_000 })).map(({ key, value }) => [key, value]));
const told = (): readonly unknown[] => log.lines.map(({ fields }) => fields["why"] ?? fields);

/** Steps as those of a storage-child: events that are delivered, and newer ones that wait. */
function steps(count: number, delivered: number): Record<string, string> {
  const rows: Record<string, string> = {};
  for (let n = 0; n < count; n++) {
    rows[`event:k:${name(n)}`] = `${n}`.padEnd(600, "e");
    if (n < delivered) rows[`delivery:s:${name(n)}`] = `${n}`.padEnd(200, "d");
    else rows[`due:s:${name(n)}`] = "k 0 0 0";
  }
  return rows;
}
const ROWS: Readonly<Record<string, string>> = {
  ...steps(30, 20),
  [`eventid:key_1:${"Z9".repeat(100)}`]: "1",
  [`eventid:key_1:${"Z9".repeat(70)}`]: "2",
  bare: "3",
  "meta:A:b.~*": '{"a":1.0}\n"żółć"',
  "meta:odd": "lone \ud800 surrogate",
};
const LATE = [
  [["event:k:000003", "newer"]],
  [{ split: "event:k:000009" }],
  [
    ["due:s:000025", null],
    ["delivery:s:000025", "d"],
  ],
] as const;
const EXPECTED = { ...ROWS, "event:k:000003": "newer", "delivery:s:000025": "d" } as Record<string, string>;
delete EXPECTED["due:s:000025"];

describe("a folder of an earlier filesystem()", () => {
  it.each([1, 4, 1_000])(
    "is taken over with all its records, %d to a folder, and nothing is said",
    async (perFolder) => {
      const dir = fresh();
      writeFormat1(dir, ROWS, perFolder, LATE);
      const storage = await open(dir);
      expect(await all(storage)).toEqual(EXPECTED);
      expect(await storage.getMany(Object.keys(EXPECTED))).toEqual(Object.values(EXPECTED));
      await storage.dispose();
      expect(log.lines).toEqual([]);
      expect(existsSync(join(dir, "records"))).toBe(false);
      expect(readFileSync(join(dir, "items/event/k+000004.json"), "utf8")).toContain('"key": "event:k:000004"');
      expect(await all(await open(dir))).toEqual(EXPECTED);
    },
  );

  it("says a higher format before the first record is moved, so that an older relay ends with 78", async () => {
    const dir = fresh();
    writeFormat1(dir, ROWS, 4);
    await open(dir);
    expect(readFileSync(join(dir, "format.json"), "utf8")).toBe('{"storage":"filesystem","format":2}\n');
  });

  it("keeps the record in the later folder where a crash left it in two, and quarantines the other", async () => {
    const dir = fresh();
    writeFormat1(dir, ROWS, 10);
    putOld(dir, "event:k:000015", "older");
    putOld(dir, "event:k:000016", ROWS["event:k:000016"] as string);
    const storage = await open(dir);
    expect(await all(storage)).toEqual(ROWS);
    expect(told()).toEqual(["a record in the wrong folder"]);
  });

  it("quarantines what is foreign or damaged in it, and takes over the rest", async () => {
    const dir = fresh();
    writeFormat1(dir, ROWS, 1_000);
    const long = `eventid:key_1:${"Z9".repeat(100)}`;
    truncateSync(oldPath(dir, long), 20);
    truncateSync(oldPath(dir, "event:k:000001"), 20);
    writeFileSync(join(dir, "records/stray"), "mine");
    writeFileSync(join(dir, "records/event/from/notes.txt"), "mine");
    const storage = await open(dir);
    const { [long]: _, "event:k:000001": __, ...rest } = ROWS;
    expect(await all(storage)).toEqual(rest);
    expect(told().toSorted()).toEqual([
      "a damaged record",
      "not a file of this storage",
      "not a file of this storage",
      "not a folder of this storage",
    ]);
    expect(readdirSync(join(dir, "quarantine"))).toHaveLength(4);
  });

  it("drops the torn end of its journal, which may have no groups", async () => {
    const dir = fresh();
    writeFormat1(dir, ROWS, 4, LATE);
    const journal = join(dir, "journal/00000007.ndjson");
    writeFileSync(journal, readFileSync(journal, "utf8").replace(',"groups":true', ""));
    appendFileSync(journal, '{"crc":"00000000","writes":[["event:k:2');
    expect(await all(await open(dir))).toEqual(EXPECTED);
    expect(told()).toEqual(["the torn end of the journal, never acknowledged"]);
  });

  it("is refused while another process has its lock", async () => {
    const dir = fresh();
    writeFormat1(dir, ROWS, 4);
    const other = fresh();
    cpSync(dir, other, { recursive: true });
    const held = await open(other);
    await expect(open(other)).rejects.toMatchObject({ exitCode: 75 });
    expect(await all(held)).toEqual(ROWS);
  });
});

describe("a take-over of a folder that is killed", () => {
  const missing = needs("strace");
  for (const [call, when] of [
    ["rename", 1],
    ["rename", 2],
    ["rename", 30],
    ["rename", 70],
    ["mkdir", 6],
    ["fsync", 3],
    ["fsync", 12],
    ["rmdir", 1],
    ["rmdir", 3],
    ["rmdir", 12],
    ["unlink", 1],
  ] as const) {
    it(`at ${call} number ${when} loses and doubles nothing`, async ({ skip }) => {
      skip(missing !== undefined, missing);
      const folder = fresh();
      const dir = join(folder, "files");
      writeFormat1(dir, steps(40, 20), 6, [[["event:k:000041", "late"]]]);
      const book = ledger();
      book.highest = 39;
      for (let n = 0; n < 40; n++) (n < 20 ? book.ended : book.accepted).add(n);
      const under = underStrace(call, `signal=SIGKILL:when=${when}`);
      const { code } = await live(book, { folder, storage: "filesystem", first: 40, count: 0, writers: 1, under });
      expect(code).not.toBe(0);
      book.highest = 39;
      await inspect(book, folder, "filesystem");
      const storage = await open(dir);
      expect(await storage.getItem("event:k:000041")).toBe("late");
      expect(await storage.range("", { limit: 1_000 })).toHaveLength(81);
      expect(log.lines).toEqual([]);
      const left = spawnSync("find", [dir, "-name", "*.json"], { encoding: "utf8" }).stdout.trim().split("\n");
      // Each record in one file, and the format.
      expect(left).toHaveLength(82);
    });
  }
});
