// What sqlite() gives back to the disk, and what can still be read of deleted records.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { eventually } from "../support/until.ts";

const RECORDS = 8_000;
const TEXT = "of Alice ".repeat(200);
const keyOf = (n: number): string => `event:key_1:${String(n).padStart(8, "0")}`;

const opened: Storage[] = [];
async function open(dir: string): Promise<Storage> {
  const storage = await sqlite().setup(pluginContext(testClock(), dir));
  opened.push(storage);
  return storage;
}
afterEach(async () => {
  for (const storage of opened.splice(0)) await storage.dispose();
});

const numbers = Array.from({ length: RECORDS }, (_, n) => n);
const fill = (storage: Storage): Promise<void> =>
  storage.commit(numbers.map((n) => ({ op: "put", key: keyOf(n), value: `${n} ${TEXT}` })));
/** Deletes all but every fortieth record, in pages. */
async function thin(storage: Storage): Promise<void> {
  const gone = numbers.filter((n) => n % 40 !== 0);
  for (let at = 0; at < gone.length; at += 2_000)
    await storage.commit(gone.slice(at, at + 2_000).map((n) => ({ op: "delete", key: keyOf(n) })));
}
const sizeOf = (dir: string): number => statSync(join(dir, "relay.db")).size;
const left = async (storage: Storage): Promise<number> =>
  (await storage.range("event:", { limit: RECORDS })).filter(({ value }) => value.endsWith(TEXT)).length;

describe("the file of sqlite()", { timeout: 240_000 }, () => {
  it("gets smaller by itself after deletions, while commits go on, and is sound", async () => {
    const dir = testFolder();
    const storage = await open(dir);
    await fill(storage);
    await thin(storage);
    let commits = 0;
    await eventually(
      "most of the space is given back",
      async () => {
        await new Promise((resolve) => setTimeout(resolve, 150));
        await storage.commit([{ op: "put", key: "meta:test", value: String(++commits) }]);
        return sizeOf(dir) < 6 * 1024 * 1024;
      },
      200_000,
    );
    expect(await left(storage)).toBe(RECORDS / 40);
    expect(await storage.getItem("meta:test")).toBe(String(commits));
    expect(await storage.verify?.()).toEqual([]);
    await storage.dispose();
    const again = await open(dir);
    expect(await left(again)).toBe(RECORDS / 40);
    expect(await again.verify?.()).toEqual([]);
  });

  it("has nothing of deleted records any more once its log is empty", async () => {
    const dir = testFolder();
    const storage = await open(dir);
    await storage.commit(
      Array.from({ length: 200 }, (_, n) => ({ op: "put", key: keyOf(n), value: n === 7 ? "y" : TEXT })),
    );
    await storage.commit(Array.from({ length: 200 }, (_, n) => ({ op: "delete", key: keyOf(n) })));
    await storage.dispose();
    expect(readFileSync(join(dir, "relay.db")).includes("of Alice")).toBe(false);
  });

  it("of an earlier edition works as before, and gives back after it was rewritten as the guide says", async () => {
    const dir = testFolder();
    const page = readFileSync(new URL("../../docs/storage.md", import.meta.url), "utf8");
    const [, sql = ""] = /sqlite3 data\/relay\.db '([^']+)'/.exec(page) ?? [];
    const first = await open(dir);
    await first.dispose();
    const path = join(dir, "relay.db");
    const modeOf = (db: DatabaseSync): unknown => db.prepare("PRAGMA auto_vacuum").get()?.["auto_vacuum"];
    using old = new DatabaseSync(path);
    old.exec("PRAGMA auto_vacuum = NONE; VACUUM");
    expect(modeOf(old)).toBe(0);
    old.close();
    const second = await open(dir);
    await fill(second);
    await thin(second);
    expect(await left(second)).toBe(RECORDS / 40);
    await second.dispose();
    expect(sizeOf(dir)).toBeGreaterThan(10 * 1024 * 1024);
    const rewritten = new DatabaseSync(path);
    rewritten.exec(sql);
    expect(modeOf(rewritten)).toBe(2);
    rewritten.close();
    expect(sizeOf(dir)).toBeLessThan(2 * 1024 * 1024);
    const third = await open(dir);
    expect(await left(third)).toBe(RECORDS / 40);
    expect(await third.verify?.()).toEqual([]);
  });
});
