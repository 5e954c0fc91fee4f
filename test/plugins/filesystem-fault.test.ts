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
import { createRequire, syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { groupBytes, headerLine, type Write } from "../../plugins/storage/unstorage/journal-lines.ts";
import { testClock } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { openStorages } from "../support/open-storages.ts";
import { quietLog } from "../support/quiet.ts";
import { accept, name } from "../support/storage-child.ts";
import { eventually } from "../support/until.ts";

const fresh = testFolders();

const openWith = openStorages();
let log = quietLog();
function open(dir: string): Promise<Storage> {
  log = quietLog();
  return openWith(filesystem({ dir }), dir, { log });
}

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
    const storage = await openWith(filesystem({ dir }), dir, { clock });
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
    await openWith(filesystem({ dir, perFolder: 500 }), dir, { log });
    expect(log.lines).toMatchObject([{ level: "warn" }]);
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

describe("the journal of filesystem() after a power cut", () => {
  const group = (...commits: readonly (readonly Write[])[]): Buffer => groupBytes(commits);
  const key = (n: number): string => `event:k:${name(n)}`;
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
    expect(errors()).toEqual(["the torn end of the journal, never acknowledged"]);
  });

  it("counts everything else when a group follows the hole: it was synced, and harmed later", async () => {
    const dir = await left(Buffer.concat([holed(group(event(1), event(2), event(3)), "v2"), group(event(4))]));
    expect(await events(dir)).toEqual([key(1), key(3), key(4)]);
    expect(errors()).toEqual(["a damaged line of the journal: a commit may be lost"]);
  });

  it("counts everything else when a segment follows the hole", async () => {
    const dir = await left(holed(group(event(1), event(2), event(3)), "v2"), group(event(4)));
    expect(await events(dir)).toEqual([key(1), key(3), key(4)]);
    expect(errors()).toEqual(["a damaged line of the journal: a commit may be lost"]);
  });

  it("counts nothing behind a hole at a later start either, when a segment follows by then", async () => {
    const dir = await left(Buffer.concat([group(event(1)), holed(group(event(2), event(3), event(4)), "v3")]));
    const journal = join(dir, "journal");
    const torn = readFileSync(join(journal, "00000090.ndjson"));
    const storage = await open(dir);
    await storage.commit(accept(7));
    // As a crash would leave it, before what the first segment says was in its files.
    const kept = fresh();
    execFileSync("cp", ["-r", journal, join(dir, "format.json"), kept]);
    writeFileSync(join(kept, "journal", "00000090.ndjson"), torn);
    expect(await events(kept)).toEqual([key(1), key(2), key(7)]);
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

const promises = createRequire(import.meta.url)("node:fs/promises") as Record<string, (...args: never[]) => unknown>;
const real = { ...promises };

/** From here on this call fails for all paths that end so. */
function fail(call: "open" | "readdir", end: RegExp, code: string): void {
  const act = real[call] as (...args: unknown[]) => unknown;
  promises[call] = ((path: string, ...rest: unknown[]) =>
    end.test(path)
      ? Promise.reject(Object.assign(new Error(`${code}: ${call}`), { code }))
      : act(path, ...rest)) as never;
  syncBuiltinESMExports();
}
function heal(): void {
  promises["open"] = real["open"] as never;
  promises["readdir"] = real["readdir"] as never;
  syncBuiltinESMExports();
}
afterEach(heal);

const LONG = `eventid:key_1:${"Z9".repeat(60)}`;

/** A folder with a due line, a record whose name is too long for one file, and one beside it. */
async function withLongName(): Promise<string> {
  const dir = fresh();
  const storage = await open(dir);
  await storage.commit([
    // A start counts the due lines, and looks no further.
    { op: "put", key: "due:sub_1:1767225600000:01kdvdpb10e72n22bakfam8q74", value: "key_1 1 0 0" },
    { op: "put", key: LONG, value: "1" },
    { op: "put", key: "eventid:key_1:short", value: "2" },
  ]);
  await storage.dispose();
  return dir;
}

describe("filesystem() while the operating system refuses to read", () => {
  it("leaves a record whose name is too long for one file where it is, and finds it when it can read again", async () => {
    const dir = await withLongName();
    const storage = await open(dir);
    fail("open", /-\/[^/]+\.json$/, "EMFILE");
    await expect(storage.range("eventid:")).rejects.toMatchObject({ name: "StorageError", fault: "unavailable" });
    heal();
    expect((await storage.range("eventid:")).map(({ key }) => key)).toEqual([LONG, "eventid:key_1:short"].toSorted());
    expect(await storage.getItem(LONG)).toBe("1");
    expect(quarantined(dir)).toEqual([]);
  });

  it("says unavailable when a folder cannot be listed, not what the system call was", async () => {
    const dir = await withLongName();
    fail("readdir", /items\/eventid$/, "EIO");
    await expect(open(dir)).rejects.toMatchObject({ name: "StorageError", fault: "unavailable" });
    heal();
    expect(await (await open(dir)).range("eventid:")).toHaveLength(2);
  });
});
