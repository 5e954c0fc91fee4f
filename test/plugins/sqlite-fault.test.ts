import { execFileSync, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, it } from "vitest";
import { StartError, StorageError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { openReader } from "../../plugins/storage/sqlite/reader.ts";
import { startThread, type Thread } from "../../plugins/storage/sqlite/thread.ts";
import { openWriter } from "../../plugins/storage/sqlite/writer.ts";
import { testClock } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { accept } from "../support/storage-child.ts";
import { inspect, ledger, live } from "../support/storage-crash.ts";
import { until } from "../support/until.ts";

const fresh = testFolders();
const clock = testClock();

const opened: Storage[] = [];
async function open(dir: string): Promise<Storage> {
  const storage = await sqlite().setup(pluginContext(clock, dir));
  opened.push(storage);
  return storage;
}
afterEach(async () => {
  for (const storage of opened.splice(0)) await storage.dispose();
});

const failure = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("sqlite() and its folder", () => {
  it("keeps its files from other users", async () => {
    const dir = join(fresh(), "made", "here");
    const storage = await open(dir);
    await storage.commit(accept(1));
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    for (const file of readdirSync(dir)) expect(statSync(join(dir, file)).mode & 0o777, file).toBe(0o600);
    expect(readdirSync(dir).toSorted()).toEqual(["lock", "relay.db", "relay.db-shm", "relay.db-wal"]);
  });

  it("tightens a database that others could read", async () => {
    const dir = fresh();
    await (await open(dir)).dispose();
    chmodSync(join(dir, "relay.db"), 0o644);
    await open(dir);
    expect(statSync(join(dir, "relay.db")).mode & 0o777).toBe(0o600);
  });

  it("refuses a second process with exit 75, naming the first, until that is gone, however it went", async () => {
    const dir = fresh();
    const book = ledger();
    const told = Promise.withResolvers<ChildProcess>();
    const life = live(book, {
      folder: dir,
      first: 0,
      count: 1,
      writers: 1,
      hold: true,
      heard: (line, child) => {
        if (line === "b 0") told.resolve(child);
      },
    });
    const first = await told.promise;
    const second = await live(ledger(), { folder: dir, first: 0, count: 1, writers: 1 });
    expect(second.code).toBe(75);
    expect(second.stderr).toContain(`pid ${first.pid}`);
    const error = await failure(open(dir));
    expect(error).toBeInstanceOf(StartError);
    expect((error as StartError).exitCode).toBe(75);
    const dead = once(first, "exit");
    first.kill("SIGKILL");
    await dead;
    await life;
    await inspect(book, dir);
  });

  it("refuses itself a second time in one process, and lets go when it is disposed of", async () => {
    const dir = fresh();
    const storage = await open(dir);
    await storage.commit(accept(1));
    for (let i = 0; i < 2; i++) expect(await failure(open(dir))).toMatchObject({ exitCode: 75 });
    // The refused ones have not loosened the lock for others.
    expect((await live(ledger(), { folder: dir, first: 0, count: 1, writers: 1 })).code).toBe(75);
    await storage.dispose();
    await open(dir);
  });

  it("refuses a newer version's data, and leaves it as it is", async () => {
    const dir = fresh();
    await (await open(dir)).dispose();
    const db = new DatabaseSync(join(dir, "relay.db"));
    db.exec("PRAGMA user_version = 99");
    db.close();
    const before = readFileSync(join(dir, "relay.db"));
    const error = await failure(open(dir));
    expect(error).toMatchObject({ name: "StartError", exitCode: 78 });
    expect((error as Error).message).toMatch(/newer version \(schema 99, this one knows 1\)/);
    expect(readFileSync(join(dir, "relay.db")).equals(before)).toBe(true);
  });

  it("refuses another program's database, and leaves it as it is", async () => {
    const dir = fresh();
    const db = new DatabaseSync(join(dir, "relay.db"));
    db.exec("CREATE TABLE notes (text)");
    db.close();
    const before = readFileSync(join(dir, "relay.db"));
    expect(await failure(open(dir))).toMatchObject({ name: "StartError", exitCode: 78 });
    expect(readFileSync(join(dir, "relay.db")).equals(before)).toBe(true);
  });

  it("says that a file which is no database is broken, and lets go of the folder", async () => {
    const dir = fresh();
    writeFileSync(join(dir, "relay.db"), "this is not a database, whatever its name says\n".repeat(200));
    for (let i = 0; i < 2; i++)
      expect(await failure(open(dir))).toMatchObject({ name: "StorageError", fault: "broken" });
    rmSync(join(dir, "relay.db"));
    await open(dir);
  });

  it("says that damaged pages are broken, and answers from the others", async () => {
    const dir = fresh();
    const storage = await open(dir);
    for (let n = 0; n < 200; n++) await storage.commit(accept(n));
    await storage.dispose();
    const bytes = readFileSync(join(dir, "relay.db"));
    const page = bytes.indexOf("150eeee");
    bytes.fill(0xff, page & ~4095, (page & ~4095) + 4096);
    writeFileSync(join(dir, "relay.db"), bytes);
    const again = await open(dir);
    const error = await failure(again.getItem("event:k:000150"));
    expect(error).toBeInstanceOf(StorageError);
    expect((error as StorageError).fault).toBe("broken");
    expect(await again.getItem("event:k:000001")).toMatch(/^1eee/);
  });
});

describe("sqlite() and failing disks", () => {
  const missing = needs("strace");
  /** The log's own calls, counted per thread. */
  const injected = (dir: string, call: string, error: string, when: string): readonly string[] => [
    ..."strace -f -qq -o /dev/null -P".split(" "),
    join(dir, "relay.db-wal"),
    "-e",
    `trace=${call}`,
    "-e",
    `inject=${call}:error=${error}:when=${when}`,
  ];

  for (const [call, error, when, fault] of [
    ["fsync", "EIO", "6", "uncertain"],
    ["fsync", "EIO", "6..9", "uncertain"],
    ["pwrite64", "EIO", "24", "uncertain"],
    ["pwrite64", "ENOSPC", "24..30", "full"],
  ] as const) {
    it(`says "${fault}" when ${call} fails with ${error} (${when}), and goes on when it works again`, async ({
      skip,
    }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      // What comes first is made in a life of its own, so that the counts begin with the commits.
      await live(book, { folder: dir, first: 0, count: 1, writers: 1 });
      const under = injected(dir, call, error, when);
      const { code, stderr } = await live(book, { folder: dir, first: 1, count: 59, writers: 2, under });
      expect(code, stderr).toBe(0);
      expect(new Set(book.faults)).toEqual(new Set([fault]));
      expect(book.ended.has(59)).toBe(true);
      await inspect(book, dir);
    });
  }

  it.for(["1", "2"])(
    "settles soon what may have been stored (sync %s), with no other commit after it",
    async (when, { skip }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      await live(book, { folder: dir, first: 0, count: 1, writers: 1 });
      let failed = false;
      const under = injected(dir, "fsync", "EIO", when);
      const heard = (line: string, child: ChildProcess): void => {
        failed ||= line === "x 1 uncertain";
        // Long after it: a relay that has been idle.
        if (failed) setTimeout(() => process.kill(-(child.pid as number), "SIGKILL"), 4_000);
      };
      await live(book, { folder: dir, first: 1, count: 1, writers: 1, hold: true, under: ["setsid", ...under], heard });
      expect(failed).toBe(true);
      const storage = await open(dir);
      expect(await storage.getItem("event:k:000001")).toBeUndefined();
      expect(await storage.getItem("event:k:000000")).toBeDefined();
    },
  );

  it("answers a full disk with `full`, loses nothing, still reads, and recovers when space returns", async ({
    skip,
  }) => {
    const disk = join(fresh(), "disk");
    mkdirSync(disk);
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", disk]);
    skip(mounted.status !== 0, "a small disk can only be mounted by root, outside of a locked-down container");
    try {
      writeFileSync(join(disk, "ballast"), Buffer.alloc(1_000_000));
      const storage = await open(disk);
      const kept: number[] = [];
      let error: unknown;
      for (let n = 0; n < 5_000 && error === undefined; n++) {
        error = await failure(storage.commit(accept(n)));
        if (error === undefined) kept.push(n);
      }
      expect(error).toMatchObject({ name: "StorageError", fault: "full" });
      expect(kept.length).toBeGreaterThan(100);
      const refused = await Promise.allSettled([9_001, 9_002].map((n) => storage.commit(accept(n))));
      for (const one of refused) expect(one).toMatchObject({ status: "rejected", reason: { fault: "full" } });
      expect(await storage.getItem("event:k:000000")).toMatch(/^0eee/);
      rmSync(join(disk, "ballast"));
      await storage.commit(accept(9_003));
      await storage.dispose();
      const again = await open(disk);
      expect(await again.getKeys("event:k:", {})).toEqual(
        [...kept, 9_003].map((n) => `event:k:${String(n).padStart(6, "0")}`),
      );
      expect(await again.getKeys("due:s:", {})).toHaveLength(kept.length + 1);
      await again.dispose();
    } finally {
      execFileSync("umount", ["-l", disk]);
    }
  });

  it("answers `uncertain` to what its thread took into death, and starts another for the rest", async () => {
    const dir = fresh();
    const threads: Thread[] = [];
    const launch: typeof startThread = async (start) => {
      const one = await startThread(start);
      threads.push(one.thread);
      return one;
    };
    const writer = await openWriter({ path: join(dir, "x.db"), cacheKiB: 512 }, () => {}, systemClock(), launch);
    await writer.commit(accept(1));
    const under = failure(writer.commit(accept(2)));
    await new Promise((resolve) => void setImmediate(resolve));
    await threads[0]?.end();
    const outcome = await under;
    if (outcome !== undefined) expect(outcome).toMatchObject({ name: "StorageError", fault: "uncertain" });
    await writer.commit(accept(3));
    expect(threads).toHaveLength(2);
    const reader = await openReader(join(dir, "x.db"), 512);
    const lines = reader.range("due:").map(({ key }) => key);
    reader.close();
    const certain = ["due:s:000001", ...(outcome === undefined ? ["due:s:000002"] : []), "due:s:000003"];
    expect(lines).toEqual(expect.arrayContaining(certain));
    await writer.close();
    expect(existsSync(join(dir, "x.db-wal"))).toBe(false);
  });

  it("ends the thread that was being started when it is closed, after what waits for it", async () => {
    const threads: Thread[] = [];
    const launching = Promise.withResolvers<void>();
    const launch: typeof startThread = async (start) => {
      if (threads.length > 0) await launching.promise;
      const one = await startThread(start);
      threads.push(one.thread);
      return one;
    };
    const writer = await openWriter({ path: join(fresh(), "x.db"), cacheKiB: 512 }, () => {}, systemClock(), launch);
    await threads[0]?.end();
    await until(() => threads[0]?.dead === true);
    const commit = writer.commit(accept(1));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const closed = writer.close();
    launching.resolve();
    await closed;
    await commit;
    expect(threads.map(({ dead }) => dead)).toEqual([true, true]);
  });
});
