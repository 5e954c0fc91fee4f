import type { ChildProcess } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { openStorages } from "../support/open-storages.ts";
import { accept } from "../support/storage-child.ts";
import { ledger, live, underStrace } from "../support/storage-crash.ts";

const fresh = testFolders();
const openWith = openStorages();
const open = (dir: string) => openWith(sqlite(), dir);

describe("sqlite() and its folder", () => {
  it("refuses another program's database, and leaves it as it is", async () => {
    const dir = fresh();
    const db = new DatabaseSync(join(dir, "relay.db"));
    db.exec("CREATE TABLE notes (text)");
    db.close();
    const before = readFileSync(join(dir, "relay.db"));
    await expect(open(dir)).rejects.toMatchObject({ name: "StartError", exitCode: 78 });
    expect(readFileSync(join(dir, "relay.db")).equals(before)).toBe(true);
  });

  it("says that a file which is no database is broken, and lets go of the folder", async () => {
    const dir = fresh();
    writeFileSync(join(dir, "relay.db"), "this is not a database, whatever its name says\n".repeat(200));
    for (let i = 0; i < 2; i++)
      await expect(open(dir)).rejects.toMatchObject({ name: "StorageError", fault: "broken" });
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
    const reading = again.getItem("event:k:000150");
    await expect(reading).rejects.toMatchObject({ name: "StorageError", fault: "broken" });
    expect(await again.getItem("event:k:000001")).toMatch(/^1eee/);
  });
});

describe("sqlite() and failing disks", () => {
  const missing = needs("strace");
  it.for(["1", "2"])(
    "settles soon what may have been stored (sync %s), with no other commit after it",
    async (when, { skip }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      await live(book, { folder: dir, first: 0, count: 1, writers: 1 });
      let failed = false;
      const under = underStrace("fsync", `error=EIO:when=${when}`, join(dir, "relay.db-wal"));
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
});
