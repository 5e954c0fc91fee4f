// Sudden death of a process with a storage in a folder: what it acknowledged is there afterwards, and nothing by half.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { inspect, ledger, live, underStrace } from "../support/storage-crash.ts";

const fresh = testFolders();
const missing = needs("strace");

const STORAGES = [
  {
    storage: "sqlite",
    // Lines of a child before it is killed, of so many steps: early, late, in the middle of a batch.
    lines: 257,
    count: 300,
    // Of 200 steps, the most that it ends before it dies.
    most: 199,
    steps: "fsync 2, fsync 5, fsync 8, pwrite64 12, pwrite64 21, pwrite64 34",
    log: "-wal",
  },
  {
    storage: "filesystem",
    // Also while the files are being brought up to date.
    lines: 1_601,
    count: 1_000,
    most: 200,
    // The calls of the journal come first, then those of the files, then those of the folders.
    steps: "fsync 4, fdatasync 3, fdatasync 40, fsync 60, fsync 350, rename 2, rename 150, unlink 1",
    log: "\\.ndjson",
  },
] as const;

describe.each(STORAGES)("$storage() after sudden death", ({ storage, lines, count, most, steps, log }) => {
  it("has everything that it acknowledged, killed again and again at any moment", async () => {
    const folder = fresh();
    const book = ledger();
    for (let round = 0; round < 4; round++) {
      const before = book.accepted.size;
      // Seeded by the round.
      let left = 1 + ((round * 7_919) % lines);
      await live(book, {
        ...{ folder, storage, first: book.highest + 1 },
        // More than it lives to write.
        count,
        writers: [1, 3, 16, 64][round % 4] as number,
        heard: (line, child) => {
          if (line !== "open" && --left === 0) child.kill("SIGKILL");
        },
      });
      await inspect(book, folder, storage);
      expect(book.accepted.size).toBeGreaterThan(before);
    }
    expect(book.faults).toEqual([]);
  });

  it.for(steps.split(", "))("has lost nothing and halved nothing at step %s", async (step, { skip }) => {
    skip(missing !== undefined, missing);
    const [call = "", when] = step.split(" ");
    const folder = fresh();
    const book = ledger();
    const under = underStrace(call, `signal=SIGKILL:when=${when}`);
    const { code } = await live(book, { folder, storage, first: 0, count: 200, writers: 4, under });
    expect(code).not.toBe(0);
    expect(book.ended.size).toBeLessThanOrEqual(most);
    await inspect(book, folder, storage);
    // The next life goes on with what it found.
    await live(book, { folder, storage, first: 200, count: 5, writers: 2 });
    expect(book.ended.has(204)).toBe(true);
    await inspect(book, folder, storage);
  });

  it("has synced its log between a commit's last write and its acknowledgement, every time", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const trace = join(fresh(), "trace");
    const book = ledger();
    const under = ["env", "UV_THREADPOOL_SIZE=1", "strace", "-f", "-y", "-qq", "-o", trace];
    const calls = ["-e", "trace=pwrite64,fsync,fdatasync,write"];
    // One alone: else the next batch is being written while the last one's acknowledgements are.
    await live(book, { folder: fresh(), storage, first: 0, count: 40, writers: 1, under: [...under, ...calls] });
    expect(book.ended.size).toBe(40);
    expect(acknowledgements(readFileSync(trace, "utf8"), log)).toEqual({ acknowledged: 80, unsynced: [] });
  });
});

/** Reads a trace: for every acknowledgement on stdout, was anything written to the log that no completed sync followed? */
function acknowledgements(trace: string, log: string) {
  const writes = new RegExp(`^pwrite64\\(\\d+<.*${log}>`);
  const syncs = new RegExp(`^(fsync|fdatasync)\\(\\d+<.*${log}>`);
  const unsynced: string[] = [];
  let dirty = false;
  let syncing = false;
  let acknowledged = 0;
  for (const line of trace.split("\n")) {
    const call = line.replace(/^\d+\s+/, "");
    if (writes.test(call)) {
      dirty = true;
      syncing = false;
    }
    if (syncs.test(call)) {
      if (call.endsWith("= 0")) dirty = false;
      else syncing = true;
    }
    if (/^<\.\.\. (fsync|fdatasync) resumed>.*= 0$/.test(call) && syncing) dirty = syncing = false;
    if (/^write\(1<.*"[ab] \d/.test(call)) {
      acknowledged++;
      if (dirty) unsynced.push(call);
    }
  }
  return { acknowledged, unsynced };
}
