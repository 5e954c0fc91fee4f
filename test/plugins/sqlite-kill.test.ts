import { join } from "node:path";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { inspect, ledger, live } from "../support/storage-crash.ts";

const fresh = testFolders();

describe("sqlite() and sudden death", () => {
  it("has everything that it acknowledged after being killed again and again at any moment", async () => {
    const dir = fresh();
    const book = ledger();
    let acknowledged = 0;
    for (let round = 0; round < 6; round++) {
      // Seeded by the round: early, late, in the middle of a batch.
      let left = 1 + ((round * 7_919) % 257);
      await live(book, {
        folder: dir,
        first: book.highest + 1,
        // More than it lives to write.
        count: 300,
        writers: [1, 3, 16, 64][round % 4] as number,
        heard: (line, child) => {
          if (line !== "open" && --left === 0) child.kill("SIGKILL");
        },
      });
      await inspect(book, dir);
      expect(book.accepted.size).toBeGreaterThan(acknowledged);
      acknowledged = book.accepted.size;
    }
    expect(book.faults).toEqual([]);
  });

  const missing = needs("strace");
  const steps = [
    ["fsync", 2],
    ["fsync", 5],
    ["fsync", 8],
    ["pwrite64", 12],
    ["pwrite64", 21],
    ["pwrite64", 34],
  ] as const;
  for (const [call, when] of steps) {
    it(`loses nothing and halves nothing when it dies at ${call} number ${when}`, async ({ skip }) => {
      skip(missing !== undefined, missing);
      const dir = fresh();
      const book = ledger();
      const inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", `trace=${call}`];
      const { code } = await live(book, {
        folder: dir,
        first: 0,
        count: 200,
        writers: 4,
        under: [...inject, "-e", `inject=${call}:signal=SIGKILL:when=${when}`],
      });
      expect(code).not.toBe(0);
      expect(book.ended.size).toBeLessThan(200);
      await inspect(book, dir);
      // The next life goes on with what it found.
      await live(book, { folder: dir, first: 200, count: 5, writers: 2 });
      expect(book.ended.has(204)).toBe(true);
      await inspect(book, dir);
    });
  }

  it("syncs the log between a commit's last write and its acknowledgement, every time", async ({ skip }) => {
    skip(missing !== undefined, missing);
    const dir = fresh();
    const trace = join(fresh(), "trace");
    const book = ledger();
    const calls = "trace=pwrite64,fsync,fdatasync,write";
    await live(book, {
      folder: dir,
      first: 0,
      count: 40,
      // One alone: else the next batch is being written while the last one's acknowledgements are.
      writers: 1,
      under: ["strace", "-f", "-y", "-qq", "-o", trace, "-e", calls],
    });
    expect(book.ended.size).toBe(40);
    const syncs = acknowledgements(readFileSync(trace, "utf8"));
    expect(syncs.acknowledged).toBe(80);
    expect(syncs.unsynced).toEqual([]);
  });
});

/** Reads a trace: for every acknowledgement on stdout, was anything written to the log that no completed sync followed? */
function acknowledgements(trace: string): { readonly acknowledged: number; readonly unsynced: readonly string[] } {
  let dirty = false;
  let syncing = false;
  let acknowledged = 0;
  const unsynced: string[] = [];
  for (const line of trace.split("\n")) {
    const call = line.replace(/^\d+\s+/, "");
    if (/^pwrite64\(\d+<.*-wal>/.test(call)) {
      dirty = true;
      syncing = false;
    }
    if (/^(fsync|fdatasync)\(\d+<.*-wal>/.test(call)) {
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
