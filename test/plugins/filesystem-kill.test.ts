import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { inspect, ledger, live } from "../support/storage-crash.ts";

const fresh = testFolders();
const storage = "filesystem";

describe("filesystem() and sudden death", () => {
  it("has everything that it acknowledged after being killed again and again at any moment", async () => {
    const dir = fresh();
    const book = ledger();
    let acknowledged = 0;
    for (let round = 0; round < 6; round++) {
      // Seeded by the round: early, late, while the files are being brought up to date.
      let left = 1 + ((round * 7_919) % 1_601);
      await live(book, {
        folder: dir,
        storage,
        first: book.highest + 1,
        // More than it lives to write.
        count: 1_000,
        writers: [1, 3, 16, 64][round % 4] as number,
        heard: (line, child) => {
          if (line !== "open" && --left === 0) child.kill("SIGKILL");
        },
      });
      expect(book.accepted.size).toBeGreaterThan(acknowledged);
      acknowledged = book.accepted.size;
    }
    await inspect(book, dir, storage);
    expect(book.faults).toEqual([]);
  });

  const missing = needs("strace");
  // With one thread in the pool the calls come in order: the journal's first, then the files', then the folders'.
  const steps = [
    ["fsync", 4],
    ["fdatasync", 3],
    ["fdatasync", 40],
    ["fsync", 60],
    ["fsync", 350],
    ["rename", 2],
    ["rename", 150],
    ["unlink", 1],
  ] as const;
  for (const [call, when] of steps) {
    it(`loses nothing and halves nothing when it dies at ${call} number ${when}`, async ({ skip }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      const inject = `inject=${call}:signal=SIGKILL:when=${when}`;
      const { code } = await live(book, {
        folder: dir,
        storage,
        first: 0,
        count: 200,
        writers: 4,
        under: [..."env UV_THREADPOOL_SIZE=1 strace -f -qq -o /dev/null -e".split(" "), `trace=${call}`, "-e", inject],
      });
      expect(code).not.toBe(0);
      await inspect(book, dir, storage);
      // The next life goes on with what it found.
      await live(book, { folder: dir, storage, first: 200, count: 5, writers: 2 });
      expect(book.ended.has(204)).toBe(true);
      await inspect(book, dir, storage);
    });
  }

  it("syncs the journal between a commit's write and its acknowledgement, every time", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const dir = fresh();
    const trace = join(fresh(), "trace");
    const book = ledger();
    const calls = "trace=pwrite64,fsync,fdatasync,write";
    const under = ["env", "UV_THREADPOOL_SIZE=1", "strace", "-f", "-y", "-qq", "-o", trace, "-e", calls];
    await live(book, { folder: dir, storage, first: 0, count: 40, writers: 1, under });
    expect(book.ended.size).toBe(40);
    expect(unsynced(readFileSync(trace, "utf8"))).toEqual({ acknowledged: 80, unsynced: [] });
  });
});

/** For every acknowledgement on stdout: was anything written to the journal that no completed sync followed? */
function unsynced(trace: string): { readonly acknowledged: number; readonly unsynced: readonly string[] } {
  const late: string[] = [];
  let dirty = false;
  let syncing = false;
  let acknowledged = 0;
  for (const line of trace.split("\n")) {
    const call = line.replace(/^\d+\s+/, "");
    if (/^pwrite64\(\d+<.*\.ndjson>/.test(call)) dirty = true;
    if (/^(fsync|fdatasync)\(\d+<.*\.ndjson>/.test(call)) {
      if (call.endsWith("= 0")) dirty = false;
      else syncing = true;
    }
    if (/^<\.\.\. (fsync|fdatasync) resumed>.*= 0$/.test(call) && syncing) dirty = syncing = false;
    if (/^write\(1<.*"[ab] \d/.test(call)) {
      acknowledged++;
      if (dirty) late.push(call);
    }
  }
  return { acknowledged, unsynced: late };
}
