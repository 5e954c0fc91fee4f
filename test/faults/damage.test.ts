// A folder with stored data that others use, may read or have changed: it is refused or closed, and left as it is.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { lockFolder } from "../../plugins/storage/embedded/lock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testFolders } from "../support/folder.ts";
import { openStorages } from "../support/open-storages.ts";
import { accept } from "../support/storage-child.ts";
import { inspect, ledger, live } from "../support/storage-crash.ts";

const fresh = testFolders();
const open = openStorages();

const STORAGES = [
  {
    storage: "sqlite" as const,
    plugin: sqlite,
    /** Its files in the data folder, and one that others could read. */
    place: "",
    readable: "relay.db",
    /** The file that says which version made it. */
    version: "relay.db",
    makeNewer(path: string): void {
      using db = new DatabaseSync(path);
      db.exec("PRAGMA user_version = 99");
    },
    why: /newer version \(schema 99, this one knows 1\)/,
  },
  {
    storage: "filesystem" as const,
    plugin: filesystem,
    place: "files",
    readable: "items",
    version: "format.json",
    makeNewer: (path: string): void => writeFileSync(path, '{"storage":"filesystem","format":3}\n'),
    why: /a format that this version cannot read \(3\)/,
  },
];

describe.each(STORAGES)("the folder of $storage()", ({ storage, plugin, place, readable, version, makeNewer, why }) => {
  it("is closed to other users, with all that is in it", async () => {
    const folder = join(fresh(), "made", "here");
    await (await open(plugin(), folder)).commit(accept(1));
    const own = join(folder, place);
    for (const name of ["", ...readdirSync(own, { recursive: true, encoding: "utf8" })]) {
      const stat = statSync(join(own, name));
      expect(stat.mode & 0o777, name).toBe(stat.isDirectory() ? 0o700 : 0o600);
    }
  });

  it("is closed where others could read it", async () => {
    const folder = fresh();
    await (await open(plugin(), folder)).dispose();
    const path = join(folder, place, readable);
    const closed = statSync(path).mode;
    chmodSync(path, closed | 0o044);
    await open(plugin(), folder);
    expect(statSync(path).mode).toBe(closed);
  });

  it("is refused to a second process with 75, naming the first, until that is gone, however it went", async () => {
    const folder = fresh();
    const book = ledger();
    const ready = Promise.withResolvers<ChildProcess>();
    const heard = (line: string, child: ChildProcess): void => {
      if (line === "b 0") ready.resolve(child);
    };
    const life = live(book, { folder, storage, first: 0, count: 1, writers: 1, hold: true, heard });
    const first = await ready.promise;
    const second = await live(ledger(), { folder, storage, first: 0, count: 1, writers: 1 });
    expect(second).toMatchObject({ code: 75, stderr: expect.stringContaining(`pid ${first.pid}`) as string });
    await expect(open(plugin(), folder)).rejects.toMatchObject({ name: "StartError", exitCode: 75 });
    const dead = once(first, "exit");
    first.kill("SIGKILL");
    await dead;
    await life;
    await inspect(book, folder, storage);
  });

  it("is refused a second time in one process, and free when the first is disposed of", async () => {
    const folder = fresh();
    const first = await open(plugin(), folder);
    await first.commit(accept(1));
    for (let i = 0; i < 2; i++) await expect(open(plugin(), folder)).rejects.toMatchObject({ exitCode: 75 });
    // The refused ones have not loosened the lock for others.
    expect((await live(ledger(), { folder, storage, first: 0, count: 1, writers: 1 })).code).toBe(75);
    await first.dispose();
    await open(plugin(), folder);
  });

  it("is refused where a newer version has made it, and left as it is", async () => {
    const folder = fresh();
    await (await open(plugin(), folder)).dispose();
    const path = join(folder, place, version);
    makeNewer(path);
    const before = readFileSync(path);
    const start = open(plugin(), folder);
    await expect(start).rejects.toMatchObject({ name: "StartError", exitCode: 78 });
    await expect(start).rejects.toThrow(why);
    expect(readFileSync(path).equals(before)).toBe(true);
  });
});

it("a folder is refused with 75 while another process is taking its lock", async () => {
  const folder = fresh();
  const other = new DatabaseSync(join(folder, "lock"));
  other.exec("BEGIN EXCLUSIVE");
  await expect(lockFolder(folder)).rejects.toMatchObject({ exitCode: 75 });
  other.close();
  (await lockFolder(folder)).release();
});
