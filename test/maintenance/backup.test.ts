import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { batches, canTap, backupLines, inspect, NoBackup, type TappedStorage } from "../../core/maintenance/backup.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Change, Entry, Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testClock, turn } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

const ABOUT = { storage: "test", at: 5 };
const open = async (plugin = memory(), folder = "/nowhere"): Promise<Storage & TappedStorage> => {
  const storage = await plugin.setup(pluginContext(testClock(), folder));
  if (!canTap(storage)) throw new Error("no tap");
  return storage;
};
const all = (storage: Storage): Promise<readonly Entry[]> => storage.range("", { limit: 1_000_000 });

async function taken(
  storage: TappedStorage,
  between: () => Promise<unknown> = async () => {},
): Promise<readonly string[]> {
  let text = "";
  for await (const part of backupLines(storage, ABOUT)) {
    text += part;
    await between();
  }
  return text.split("\n").slice(0, -1);
}
async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}
async function putBack(lines: readonly string[]): Promise<Storage> {
  await inspect(each(lines));
  const storage = await open();
  for await (const batch of batches(each(lines))) await storage.commit(batch);
  return storage;
}
const put = (key: string, value: string): Change => ({ op: "put", key, value });

describe("a backup", () => {
  it("holds every record, whatever text it is", async () => {
    const storage = await open();
    await storage.commit([put("event:a", "1\n2\u2028\ud800"), put("due:s:1", ""), put("meta:x", '"\\')]);
    const lines = await taken(storage);
    expect(await inspect(each(lines))).toMatchObject({ lines: 3, head: { storage: "test", at: 5 } });
    expect(await all(await putBack(lines))).toEqual(await all(storage));
  });

  it("of nothing is a backup too", async () => {
    expect(await all(await putBack(await taken(await open())))).toEqual([]);
  });

  it("comes to the state at its end, whatever is written while it is taken", async () => {
    const changes = fc.record({
      key: fc.integer({ min: 0, max: 900 }).map((n) => `event:${String(n).padStart(4, "0")}`),
      value: fc.option(fc.string({ maxLength: 4 }), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(changes, { maxLength: 30 }), { maxLength: 8 }), async (rounds) => {
        const storage = await open();
        await storage.commit(Array.from({ length: 700 }, (_, n) => put(`event:${String(n).padStart(4, "0")}`, `${n}`)));
        const before: (readonly Entry[])[] = [];
        const lines = await taken(storage, async () => {
          before.push(await all(storage));
          const commit = (rounds[before.length - 1] ?? []).map(({ key, value }): Change =>
            value === undefined ? { op: "delete", key } : put(key, value),
          );
          if (commit.length > 0) await storage.commit(commit);
        });
        // Behind the last records only the foot is written.
        expect(await all(await putBack(lines))).toEqual(before.at(-2));
      }),
      { numRuns: 60 },
    );
  });

  it.each(["sqlite", "filesystem"])("is whole while %s takes commits all the time", async (name) => {
    const folder = testFolder();
    const storage = await open(name === "sqlite" ? (sqlite() as never) : (filesystem() as never), folder);
    await storage.commit(Array.from({ length: 900 }, (_, n) => put(`event:${String(n).padStart(4, "0")}`, "0")));
    let writing = true;
    // Two records that are only ever changed together, far apart, and one that moves.
    const writer = (async () => {
      for (let n = 1; writing; n++) {
        await storage.commit([
          put("event:0000", `${n}`),
          put("event:0899", `${n}`),
          { op: "delete", key: `due:s:${n - 1}` },
          put(`due:s:${n}`, `${n}`),
        ]);
      }
    })();
    const back = await putBack(await taken(storage));
    writing = false;
    await writer;
    const [first, last] = await back.getMany(["event:0000", "event:0899"]);
    expect(first).toBe(last);
    expect(await back.range("due:")).toEqual(Number(first) > 0 ? [{ key: `due:s:${first}`, value: first }] : []);
    await storage.dispose();
  });

  it("is whole where a page shows a commit that the storage has not reported yet", async () => {
    const storage = await open();
    const name = (n: number): string => `event:${String(n).padStart(4, "0")}`;
    await storage.commit(Array.from({ length: 250 }, (_, n) => put(name(n), "0")));
    const { tap, commit, range } = storage;
    const reports: (() => void)[] = [];
    storage.tap = (told) => tap((...report) => reports.push(() => told(...report)));
    // Reports come in order: when a commit is done, those of all before it have come.
    storage.commit = async (changes) => {
      await commit(changes);
      for (const report of reports.splice(0)) report();
    };
    storage.range = async (prefix, options) => {
      // The first is on a page that is written, the last on the one that is read.
      if (options?.after !== undefined) await commit([put(name(0), "1"), put(name(249), "1")]);
      return await range(prefix, options);
    };
    const back = await putBack(await taken(storage));
    expect(await back.getMany([name(0), name(249)])).toEqual(["1", "1"]);
  });

  it("holds the whole of a commit that had begun before it, which no storage need report", async () => {
    const storage = await open();
    const keys = Array.from({ length: 300 }, (_, n) => `event:${String(n).padStart(4, "0")}`);
    const [first, last] = [keys[0] as string, keys.at(-1) as string];
    await storage.commit(keys.map((key) => put(key, "old")));
    const { tap, commit } = storage;
    const begun = [put(first, "new"), put(last, "new")];
    storage.tap = (committed) => tap((changes, certain) => void (changes === begun || committed(changes, certain)));
    const before = turn().then(() => commit(begun));
    storage.commit = async (changes) => {
      await before;
      await commit(changes);
    };
    expect(await (await putBack(await taken(storage))).getMany([first, last])).toEqual(["new", "new"]);
  });

  it.each(["quarantined", "unreadable"])("is given up when a record is %s meanwhile", async (what) => {
    const storage = await open();
    let looks = 0;
    storage.status = async () => ({ [what]: looks++ });
    await expect(taken(storage)).rejects.toThrow("1 file or item could not be read");
  });

  it("listens to no commit any more when it is whole", async () => {
    const storage = await open();
    const { tap } = storage;
    let taps = 0;
    storage.tap = (committed) => {
      taps++;
      const untap = tap(committed);
      return () => (untap(), void taps--);
    };
    await taken(storage);
    expect(taps).toBe(0);
  });

  it("is put back in parts that are bounded by their length", async () => {
    const storage = await open();
    await storage.commit(Array.from({ length: 20 }, (_, n) => put(`event:${n}`, "1".repeat(1_000))));
    const sizes: number[] = [];
    for await (const batch of batches(each(await taken(storage)), 5_000)) sizes.push(batch.length);
    expect(sizes).toEqual([5, 5, 5, 5]);
  });

  it("of a newer version says so", async () => {
    const [head = "", ...rest] = await taken(await open());
    const newer = head.replace('"version":1', '"version":2');
    await expect(inspect(each([newer, ...rest]))).rejects.toThrow("it is of version 2, this one reads 1");
  });

  it("is given up when the storage cannot tell whether a commit happened", async () => {
    const storage = await open();
    const { tap } = storage;
    let tell: Parameters<typeof tap>[0] = () => {};
    storage.tap = (committed) => tap((tell = committed));
    const work = taken(storage, async () => tell([put("event:1", "")], false));
    await expect(work).rejects.toBeInstanceOf(StorageError);
  });

  it("keeps no change beyond its bound while its reader pauses, and fails then", async () => {
    const storage = await open();
    const { tap } = storage;
    let tapped = false;
    storage.tap = (committed) => {
      tapped = true;
      const untap = tap(committed);
      return () => (untap(), (tapped = false));
    };
    const lines = backupLines(storage, ABOUT, 1_000);
    await lines.next();
    await storage.commit([put("event:a", "1".repeat(900))]);
    expect(tapped).toBe(true);
    await storage.commit([put("event:a", "2".repeat(900))]);
    expect(tapped).toBe(false);
    await expect(lines.next()).rejects.toThrow("more was changed than the backup could write");
  });

  it.each([
    ["cut off", (lines: string[]) => lines.slice(0, -1)],
    ["without a beginning", (lines: string[]) => lines.slice(1)],
    ["with a line less", (lines: string[]) => lines.toSpliced(1, 1)],
    ["with a line changed", (lines: string[]) => lines.with(1, '["p","event:a","2"]')],
    ["with more behind its end", (lines: string[]) => [...lines, lines[1] as string]],
    ["of something else", () => ['{"hello":1}']],
    ["with nonsense in it", (lines: string[]) => lines.with(1, "[")],
    ["that is empty", () => []],
    [
      "of a storage that was filled by half",
      async () => {
        const half = await open();
        await half.commit([put("meta:filling", "restore abc")]);
        return await taken(half);
      },
    ],
  ])("%s is refused", async (_, spoil) => {
    const storage = await open();
    await storage.commit([put("event:a", "1"), put("event:b", "1")]);
    await expect(inspect(each(await spoil([...(await taken(storage))])))).rejects.toBeInstanceOf(NoBackup);
  });
});
