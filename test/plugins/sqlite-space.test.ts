// Space that sqlite() gives back to the disk, and what can still be read of deleted records.
import { closeSync, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import type { Change } from "../../core/model/kind.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { createCleanUp } from "../../plugins/storage/sqlite/clean-up.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { random as seeded } from "../../tools/torture/random.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { openStorages } from "../support/open-storages.ts";
import { ledger, live as childLife, underStrace } from "../support/storage-crash.ts";
import { eventually } from "../support/until.ts";

const RECORDS = 8_000;
const TEXT = "of Alice ".repeat(200);
const keyOf = (n: number): string => `event:key_1:${String(n).padStart(8, "0")}`;

const openWith = openStorages();
const open = (dir: string): Promise<Storage> => openWith(sqlite(), dir);

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

const idOf = (n: number): string => `evt_${String(n).padStart(6, "0")}_mark`;
const eventOf = (n: number): string => `event:key_1:${idOf(n)}`;
/** Writes, changes and erases events in a seeded order, some of them with large data. @returns the ids of the erased ones */
async function mixedLoad(storage: Pick<Storage, "commit">, steps: number, seed = 7): Promise<readonly string[]> {
  const { next: random } = seeded(seed);
  const live: number[] = [];
  const gone: string[] = [];
  const put = (n: number): Change => {
    const length = Math.floor(random() * (random() < 0.05 ? 9_000 : 900));
    return { op: "put", key: eventOf(n), value: `{"id":"${idOf(n)}"}${"x".repeat(length)}` };
  };
  for (let step = 0, made = 0; step < steps;) {
    const changes: Change[] = [];
    for (let n = 0; n < 10; n++, step++) {
      const what = random();
      const at = Math.floor(random() * live.length);
      if (what < 0.5 || live.length < 50) changes.push(put(live[live.push(made++) - 1] as number));
      else if (what < 0.75) changes.push(put(live[at] as number));
      else {
        const [erased] = live.splice(at, 1) as [number];
        gone.push(idOf(erased));
        changes.push({ op: "delete", key: eventOf(erased) });
      }
    }
    await storage.commit(changes);
  }
  return gone;
}
const cleaned = (storage: Storage): Promise<void> =>
  eventually("the clean-up is done", async () => (await storage.status())["cleanUpOwed"] === false);
/** Returns which of the ids are in the database or its log. */
function readable(dir: string, ids: readonly string[]): readonly string[] {
  const found = new Set(
    ["relay.db", "relay.db-wal"].flatMap((name) => {
      const text = existsSync(join(dir, name)) ? readFileSync(join(dir, name), "latin1") : "";
      return text.match(/evt_\d{6}_mark/g) ?? [];
    }),
  );
  return ids.filter((id) => found.has(id));
}

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

  it("has nothing of erased events any more after a quiet moment, whatever was written between them", async () => {
    const dir = testFolder();
    const storage = await open(dir);
    const gone = await mixedLoad(storage, 30_000);
    expect(gone.length).toBeGreaterThan(5_000);
    await cleaned(storage);
    expect(readable(dir, gone)).toEqual([]);
    expect(await storage.verify?.()).toEqual([]);
  });

  it("has nothing of them either where pages are moved during the clean-up to what was clean", async () => {
    const path = join(testFolder(), "relay.db");
    using db = new DatabaseSync(path);
    db.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON");
    db.exec("CREATE TABLE record (key TEXT NOT NULL UNIQUE, value TEXT NOT NULL)");
    const put = db.prepare("INSERT INTO record VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value");
    const del = db.prepare("DELETE FROM record WHERE key = ?");
    const begin = db.prepare("BEGIN IMMEDIATE");
    begin.run();
    for (const n of numbers) put.run(`audit:${n}`, TEXT);
    const commit = async (changes: readonly Change[]): Promise<void> => {
      for (const change of changes) {
        if (change.op === "put") put.run(change.key, change.value);
        else del.run(change.key);
      }
    };
    const gone = await mixedLoad({ commit }, 30_000);
    db.exec("COMMIT");
    const file = openSync(path, "r+");
    const cleanUp = createCleanUp(path, () => file, true);
    const step = (): boolean => cleanUp.step({ db, begin, record: { del } }, () => db.exec("COMMIT"));
    // Far enough that the pages of the first records are clean, and those of the events, at the end, are not.
    for (let n = 0; n < 4; n++) expect(step()).toBe(true);
    begin.run();
    for (let n = 0; n < 4_000; n++) del.run(`audit:${n}`);
    db.exec("PRAGMA incremental_vacuum(1900); COMMIT");
    expect(readable(dirname(path), gone)).not.toEqual([]);
    while (step());
    expect(readable(dirname(path), gone)).toEqual([]);
    expect({ ...db.prepare("PRAGMA integrity_check").get() }).toEqual({ integrity_check: "ok" });
    db.close();
    closeSync(file);
  });

  it("is whole after a kill in the middle of a clean-up, which the next start makes good", async ({ skip }) => {
    const missing = needs("strace");
    skip(missing !== undefined, missing);
    const dir = testFolder();
    const storage = await open(dir);
    const gone = await mixedLoad(storage, 30_000, 11);
    const kept = await storage.range("event:", { limit: 100_000 });
    await storage.dispose();
    expect(readable(dir, gone)).not.toEqual([]);
    for (const when of [3, 200]) {
      const under = underStrace("pwrite64", `signal=SIGKILL:when=${when}`);
      const life = { folder: dir, first: 0, count: 0, writers: 0, hold: true, under };
      expect((await childLife(ledger(), life)).code).not.toBe(0);
    }
    const again = await open(dir);
    expect((await again.status())["cleanUpOwed"]).toBe(true);
    expect(await again.verify?.()).toEqual([]);
    await cleaned(again);
    expect(await again.range("event:", { limit: 100_000 })).toEqual(kept);
    expect(await again.verify?.()).toEqual([]);
    expect(readable(dir, gone)).toEqual([]);
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
