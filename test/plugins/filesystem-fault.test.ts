import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testClock } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog } from "../support/quiet.ts";
import { accept } from "../support/storage-child.ts";
import { inspect, ledger, live } from "../support/storage-crash.ts";
import { eventually } from "../support/until.ts";

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

/** A folder with one event in its files and nothing in its journal. */
async function filled(dir: string): Promise<string> {
  const storage = await open(dir);
  await storage.commit(accept(1));
  await storage.dispose();
  return join(dir, "items/event/k+000001.json");
}
const errors = (): readonly string[] =>
  log.lines.filter(({ level }) => level === "error").map(({ fields }) => String(fields["why"]));
const quarantined = (dir: string): readonly string[] => readdirSync(join(dir, "quarantine"));
const all = (dir: string): readonly string[] =>
  readdirSync(dir, { recursive: true, encoding: "utf8" }).map((name) => join(dir, name));

describe("filesystem() and its folder", () => {
  it("keeps its files from other users", async () => {
    const dir = join(fresh(), "made", "here");
    await filled(dir);
    for (const path of [dir, ...all(dir)]) {
      const stat = statSync(path);
      expect(stat.mode & 0o777, path).toBe(stat.isDirectory() ? 0o700 : 0o600);
    }
  });

  it("closes a folder that others could read, and says so", async () => {
    const dir = fresh();
    await filled(dir);
    chmodSync(dir, 0o755);
    chmodSync(join(dir, "items"), 0o755);
    await open(dir);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, "items")).mode & 0o777).toBe(0o700);
    expect(log.lines.some(({ level }) => level === "warn")).toBe(true);
  });

  it("writes JSON that a person can read, from which every value comes back as it was", async () => {
    const dir = fresh();
    const storage = await open(dir);
    const values = {
      "event:k:1": '{"id":"evt_1"}\n{"a":1.0,"b":12345678901234567890}',
      "subscription:K:sub_1": '{"url":"https://example.com/ü"}',
      "due:s:1": "k 0 0 0",
      "meta:odd": "lone \ud800 surrogate",
      "type:A.b": "",
      "type:a.b": "1",
    };
    for (const [key, value] of Object.entries(values)) await storage.commit([{ op: "put", key, value }]);
    await storage.dispose();
    const files = all(join(dir, "items")).filter((path) => path.endsWith(".json"));
    const records = files.map(
      (path) => JSON.parse(readFileSync(path, "utf8")) as { key: string; value?: { url: string }; lines?: unknown[] },
    );
    expect(records.map(({ key }) => key).toSorted()).toEqual(Object.keys(values).toSorted());
    expect(records.find(({ key }) => key.startsWith("sub"))?.value?.url).toBe("https://example.com/ü");
    expect(records.find(({ key }) => key.startsWith("event"))?.lines).toHaveLength(2);
    // Where case does not count they are two files all the same.
    expect(new Set(files.map((path) => path.toLowerCase())).size).toBe(files.length);
    const again = await open(dir);
    expect(await again.getMany(Object.keys(values))).toEqual(Object.values(values));
  });

  it("keeps keys that are long and strange apart", async () => {
    const dir = fresh();
    const storage = await open(dir);
    const long = `idempotency:s:${"K".repeat(300)}`;
    const keys = [
      `${long}1`,
      `${long}2`,
      "plugin:a/../b:c",
      "plugin:a\\b",
      "plugin:.",
      "plugin:..",
      "plugin:con",
      "plugin:%41 ?*",
      "bare",
      "plugin::",
    ];
    await storage.commit(keys.map((key) => ({ op: "put", key, value: key })));
    await storage.dispose();
    const again = await open(dir);
    expect(await again.getMany(keys)).toEqual(keys);
    expect((await again.range("")).map(({ key }) => key)).toEqual(keys.toSorted());
    expect(quarantined(dir)).toEqual([]);
    await expect(again.commit([{ op: "put", key: "meta:ü", value: "" }])).rejects.toBeInstanceOf(RangeError);
  });

  it("has nothing of a deleted record in any file a second later", async () => {
    const dir = fresh();
    const clock = testClock();
    const storage = await filesystem({ dir }).setup(pluginContext(clock, dir));
    opened.push(storage);
    const settled = () =>
      eventually("the files have all", async () => {
        await clock.advance(1_000);
        return (await storage.status())["behindKeys"] === 0;
      });
    const holding = (text: string) =>
      all(dir).filter((path) => statSync(path).isFile() && readFileSync(path).includes(text));
    const body = "what nobody may read";
    await storage.commit([{ op: "put", key: "event:k:1", value: body }]);
    expect(holding(body)).toHaveLength(1);
    await settled();
    expect(holding(body)).toEqual([join(dir, "items/event/k+1.json")]);
    await storage.commit([{ op: "delete", key: "event:k:1" }]);
    await settled();
    await eventually("the journal is gone", () => holding(body).length === 0);
  });

  it("leaves no folders behind of long keys that were deleted", async () => {
    const dir = fresh();
    const storage = await open(dir);
    const keys = Array.from({ length: 3 }, (_, n) => `eventid:k:${"x".repeat(400)}${n}`);
    await storage.commit(keys.map((key) => ({ op: "put", key, value: "1" })));
    await storage.dispose();
    expect(all(join(dir, "items")).filter((path) => path.endsWith(".json"))).toHaveLength(3);
    const again = await open(dir);
    await again.commit(keys.map((key) => ({ op: "delete", key })));
    await again.dispose();
    expect(all(join(dir, "items"))).toEqual([join(dir, "items/eventid")]);
  });

  it("says that perFolder has no effect any more, and starts", async () => {
    const dir = fresh();
    log = quietLog();
    opened.push(await filesystem({ dir, perFolder: 500 }).setup(pluginContext(testClock(), dir, { log })));
    expect(log.lines).toMatchObject([{ level: "warn" }]);
  });

  it("refuses a second process, and one that is made by a newer version", async () => {
    const dir = fresh();
    const storage = await open(dir);
    await expect(open(dir)).rejects.toMatchObject({ exitCode: 75 });
    await storage.dispose();
    writeFileSync(join(dir, "format.json"), '{"storage":"filesystem","format":3}\n');
    await expect(open(dir)).rejects.toMatchObject({ exitCode: 78 });
  });

  it("refuses a folder of its own that is a link", async () => {
    const dir = fresh();
    await filled(dir);
    renameSync(join(dir, "items"), join(dir, "elsewhere"));
    symlinkSync(join(dir, "elsewhere"), join(dir, "items"));
    await expect(open(dir)).rejects.toMatchObject({ exitCode: 78 });
  });
});

describe("filesystem() and what cannot be trusted", () => {
  const harms: readonly [string, (path: string) => void, string][] = [
    ["torn", (path) => truncateSync(path, statSync(path).size - 3), "a damaged record"],
    ["emptied", (path) => truncateSync(path, 0), "a damaged record"],
    [
      "changed by hand",
      (path) => writeFileSync(path, readFileSync(path, "utf8").replace("1eee", "2eee")),
      "a damaged record",
    ],
    [
      "replaced by another record",
      (path) => writeFileSync(path, readFileSync(path, "utf8").replace("event:k:000001", "event:k:000002")),
      "a damaged record",
    ],
  ];
  for (const [what, harm, why] of harms) {
    it(`moves a record that was ${what} to quarantine, and says so`, async () => {
      const dir = fresh();
      const path = await filled(dir);
      harm(path);
      const storage = await open(dir);
      await expect(storage.getItem("event:k:000001")).rejects.toMatchObject({ fault: "broken" });
      expect(await storage.getItem("event:k:000001")).toBeUndefined();
      expect(errors()).toEqual([why]);
      expect(existsSync(path)).toBe(false);
      expect(quarantined(dir)).toHaveLength(1);
      expect((await storage.status())["quarantined"]).toBe(1);
      await storage.commit(accept(1));
      expect(await storage.range("event:")).toHaveLength(1);
    });
  }

  it("lists what can be read when a record beside it cannot", async () => {
    const dir = fresh();
    const path = await filled(dir);
    const storage = await open(dir);
    await storage.commit(accept(2));
    await storage.dispose();
    truncateSync(path, 10);
    const again = await open(dir);
    expect((await again.range("event:")).map(({ key }) => key)).toEqual(["event:k:000002"]);
    expect(errors()).toEqual(["a damaged record"]);
  });

  it("follows no link, neither to a file nor to a folder", async () => {
    const dir = fresh();
    const path = await filled(dir);
    const outside = join(fresh(), "outside.json");
    renameSync(path, outside);
    symlinkSync(outside, path);
    const storage = await open(dir);
    expect(await storage.getItem("event:k:000001")).toBeUndefined();
    expect(errors()).toEqual(["not a file of this storage"]);
    expect(existsSync(outside)).toBe(true);
    await storage.commit(accept(1));
    await storage.dispose();
    const again = await open(dir);
    renameSync(path, outside);
    symlinkSync(outside, path);
    await expect(again.getItem("event:k:000001")).rejects.toMatchObject({ fault: "broken" });
    expect(existsSync(outside)).toBe(true);
    await again.dispose();
    symlinkSync(fresh(), join(dir, "items/event/z-"));
    await open(dir);
    expect(errors()).toEqual(["not a file of this storage"]);
  });

  it("moves foreign files out of its folders", async () => {
    const dir = fresh();
    const path = await filled(dir);
    writeFileSync(join(dir, "items/event/notes.txt"), "mine");
    writeFileSync(join(dir, "items/event/K+1.json"), "mine");
    writeFileSync(join(dir, "items/stray"), "mine");
    mkdirSync(join(dir, "items/event/k+7.json"));
    writeFileSync(join(dir, "journal/notes"), "mine");
    const storage = await open(dir);
    expect((await storage.range("event:")).map(({ key }) => key)).toEqual(["event:k:000001"]);
    expect(errors()).toHaveLength(5);
    expect(quarantined(dir)).toHaveLength(5);
    expect(existsSync(path)).toBe(true);
  });

  it("cuts off the torn end of the journal, keeps a copy, and has everything before it", async () => {
    const dir = fresh();
    const first = await open(dir);
    await first.commit(accept(1));
    const journal = join(dir, "journal");
    // As a crash would leave it: nothing is brought into the files.
    const kept = fresh();
    execFileSync("cp", ["-r", journal, join(dir, "format.json"), kept]);
    const [segment = ""] = readdirSync(join(kept, "journal"));
    appendFileSync(join(kept, "journal", segment), '{"crc":"00000000","writes":[["event:k:2');
    const storage = await open(kept);
    expect(await storage.getKeys("", {})).toEqual(["due:s:000001", "event:k:000001"]);
    expect(errors()).toEqual(["the torn end of the journal, never acknowledged"]);
    expect(quarantined(kept)).toHaveLength(1);
  });

  it("says loudly that a commit may be lost when the middle of the journal is damaged", async () => {
    const dir = fresh();
    const first = await open(dir);
    for (const n of [1, 2, 3]) await first.commit(accept(n));
    const kept = fresh();
    execFileSync("cp", ["-r", join(dir, "journal"), join(dir, "format.json"), kept]);
    const [segment = ""] = readdirSync(join(kept, "journal"));
    const path = join(kept, "journal", segment);
    writeFileSync(path, readFileSync(path, "utf8").replace("2eee", "9eee"));
    const storage = await open(kept);
    expect(await storage.getKeys("event:", {})).toEqual(["event:k:000001", "event:k:000003"]);
    expect(errors()).toEqual(["a damaged line of the journal: a commit may be lost"]);
  });
});

describe("filesystem() and failing disks", () => {
  const missing = needs("strace");
  for (const [call, error, when, faults] of [
    ["fdatasync", "EIO", "3", ["unavailable"]],
    ["fdatasync", "EIO", "3..6", ["unavailable"]],
    ["pwrite64", "ENOSPC", "4", ["full"]],
    ["pwrite64", "ENOSPC", "4..9", ["full"]],
    ["fdatasync,ftruncate", "EIO", "3..8", ["uncertain", "unavailable"]],
  ] as const) {
    it(`says ${faults.join(", then ")} when ${call} fails with ${error} (${when}), and goes on when it works again`, async ({
      skip,
    }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      await live(book, { folder: dir, storage: "filesystem", first: 0, count: 1, writers: 1 });
      const inject = `inject=${call}:error=${error}:when=${when}`;
      const under = [
        ..."env UV_THREADPOOL_SIZE=1 strace -f -qq -o /dev/null -e".split(" "),
        `trace=${call}`,
        "-e",
        inject,
      ];
      const { code, stderr } = await live(book, {
        folder: dir,
        storage: "filesystem",
        first: 1,
        count: 59,
        writers: 2,
        under,
      });
      expect(code, stderr).toBe(0);
      expect(faults).toEqual(expect.arrayContaining([...new Set(book.faults)]));
      expect(book.faults.length).toBeGreaterThan(0);
      expect(book.ended.has(59)).toBe(true);
      await inspect(book, dir, "filesystem");
    });
  }

  it("says full on a full disk, keeps what it acknowledged, and goes on when there is room", async ({ skip }) => {
    const dir = fresh();
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=600k,nr_inodes=400,mode=700", "tmpfs", dir], {
        stdio: "ignore",
      });
    } catch {
      skip(true, "mounting a small file system is not allowed here");
    }
    try {
      const book = ledger();
      await live(book, { folder: dir, storage: "filesystem", first: 0, count: 2_000, writers: 8 });
      expect(new Set(book.faults)).toEqual(new Set(["full"]));
      expect(book.accepted.size).toBeGreaterThan(20);
      execFileSync("mount", ["-o", "remount,size=32m,nr_inodes=9000", dir]);
      await inspect(book, dir, "filesystem");
      await live(book, { folder: dir, storage: "filesystem", first: 2_000, count: 5, writers: 2 });
      expect(book.ended.has(2_004)).toBe(true);
      await inspect(book, dir, "filesystem");
    } finally {
      execFileSync("umount", ["-l", dir]);
    }
  });
});
