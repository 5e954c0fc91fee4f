// A storage in a folder on a disk that is full, or that refuses calls: nothing acknowledged is lost, and it goes on afterwards.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { failure, openStorages } from "../support/open-storages.ts";
import { smallDisk } from "../support/small-disk.ts";
import { accept, name } from "../support/storage-child.ts";
import { inspect, ledger, live, underStrace } from "../support/storage-crash.ts";

const fresh = testFolders();
const open = openStorages();
const missing = needs("strace");

/** A call, the error that it ends with, which of the calls, and the faults that commits are refused with. */
type Fault = readonly [call: string, error: string, when: string, told: string];

const STORAGES = [
  {
    storage: "sqlite" as const,
    plugin: sqlite,
    // The log's own calls.
    only: (folder: string): string | undefined => join(folder, "relay.db-wal"),
    faults: [
      ["fsync", "EIO", "6", "uncertain"],
      ["fsync", "EIO", "6..9", "uncertain"],
      ["pwrite64", "EIO", "24", "uncertain"],
      ["pwrite64", "ENOSPC", "24..30", "full"],
    ] as readonly Fault[],
  },
  {
    storage: "filesystem" as const,
    plugin: filesystem,
    only: (): string | undefined => undefined,
    faults: [
      ["fdatasync", "EIO", "3", "unavailable"],
      ["fdatasync", "EIO", "3..6", "unavailable"],
      ["pwrite64", "ENOSPC", "4", "full"],
      ["pwrite64", "ENOSPC", "4..9", "full"],
      ["fdatasync,ftruncate", "EIO", "3..8", "uncertain unavailable"],
    ] as readonly Fault[],
  },
];

describe.each(STORAGES)("$storage() on a bad disk", ({ storage, plugin, only, faults }) => {
  it.for(faults)(
    "where %s fails with %s (call %s) says %s, and goes on when it works again",
    async ([call, error, when, fault], { skip }) => {
      skip(missing !== undefined, missing);
      const folder = fresh();
      const book = ledger();
      // The first commit is made in a life of its own, so that the counts begin with the commits.
      await live(book, { folder, storage, first: 0, count: 1, writers: 1 });
      const under = underStrace(call, `error=${error}:when=${when}`, only(folder));
      const { code, stderr } = await live(book, { folder, storage, first: 1, count: 59, writers: 2, under });
      expect(code, stderr).toBe(0);
      expect(book.faults.length).toBeGreaterThan(0);
      expect(fault.split(" ")).toEqual(expect.arrayContaining([...new Set(book.faults)]));
      expect(book.ended.has(59)).toBe(true);
      await inspect(book, folder, storage);
    },
  );

  it("says full, keeps what it acknowledged, still reads, and goes on when there is room", async ({ skip }) => {
    const disk = smallDisk(4 << 20);
    if (typeof disk === "string") return skip(disk);
    using _ = disk;
    const folder = join(disk.folder, "data");
    // The files follow the journal by the clock.
    const first = await open(plugin({ dir: folder }), folder, { clock: systemClock() });
    disk.fill(1 << 20);
    const kept: number[] = [];
    let error: unknown;
    for (let n = 0; n < 5_000 && error === undefined; n++) {
      error = await failure(first.commit(accept(n)));
      if (error === undefined) kept.push(n);
    }
    expect(error).toMatchObject({ name: "StorageError", fault: "full" });
    expect(kept.length).toBeGreaterThan(50);
    const refused = await Promise.allSettled([9_001, 9_002].map((n) => first.commit(accept(n))));
    for (const one of refused) expect(one).toMatchObject({ status: "rejected", reason: { fault: "full" } });
    expect(await first.getItem("event:k:000000")).toMatch(/^0eee/);
    disk.clear();
    await first.commit(accept(9_003));
    await first.dispose();
    const again = await open(plugin({ dir: folder }), folder);
    expect(await again.getKeys("event:k:", {})).toEqual([...kept, 9_003].map((n) => `event:k:${name(n)}`));
    expect(await again.getKeys("due:s:", {})).toHaveLength(kept.length + 1);
  });

  it.for(["a clean end", "a kill"])(
    "starts after %s and reads what there is, or says why not",
    async (end, { skip }) => {
      const disk = smallDisk(8 << 20);
      if (typeof disk === "string") return skip(disk);
      using _ = disk;
      const [lived, killed] = [join(disk.folder, "lived"), join(disk.folder, "killed")];
      const first = await open(plugin({ dir: lived }), lived);
      await first.commit([
        { op: "put", key: "event:k:1", value: "one" },
        { op: "put", key: "due:sub_1:0000000000001:dlv_1", value: "{}" },
      ]);
      cpSync(lived, killed, { recursive: true });
      await first.dispose();
      disk.fill();
      const place = end === "a kill" ? killed : lived;
      if (storage === "sqlite" && end === "a clean end") {
        // SQLite cannot read without the index of its log, which a clean end removes.
        await expect(open(plugin({ dir: place }), place)).rejects.toThrow(
          `the disk of ${place} may be full: 0 bytes are free`,
        );
        return;
      }
      const again = await open(plugin({ dir: place }), place);
      expect(await again.getItem("event:k:1")).toBe("one");
      expect(await again.status()).toMatchObject({ waiting: 1 });
      disk.clear();
      await again.commit([{ op: "put", key: "event:k:2", value: "two" }]);
    },
  );
});
