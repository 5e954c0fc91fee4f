/** The writer of sqlite(): how commits share a batch, and what becomes of them when its thread dies. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { openReader } from "../../plugins/storage/sqlite/reader.ts";
import { startThread, type Thread } from "../../plugins/storage/sqlite/thread.ts";
import { openWriter } from "../../plugins/storage/sqlite/writer.ts";
import { testFolders } from "../support/folder.ts";
import { failure } from "../support/open-storages.ts";
import { accept } from "../support/storage-child.ts";
import { until } from "../support/until.ts";

const fresh = testFolders();

/** A writer, and how many commits each batch of it had. */
async function opened() {
  const batches: number[] = [];
  const path = join(fresh(), "x.db");
  const launch: typeof startThread = async (start) => {
    const { thread, first } = await startThread(start);
    const ask: typeof thread.ask = (question) => {
      // Each commit has the number of its changes, and one code a change.
      if (question !== "close") {
        let commits = 0;
        for (let at = 0; at < question.codes.length; at += 1 + (question.codes[at] as number)) commits++;
        batches.push(commits);
      }
      return thread.ask(question);
    };
    return {
      first,
      thread: {
        ask,
        end: thread.end,
        get dead() {
          return thread.dead;
        },
      },
    };
  };
  return { path, batches, writer: await openWriter({ path, cacheKiB: 512 }, () => {}, systemClock(), launch) };
}

describe("a commit to sqlite() that may wait", () => {
  it("goes with the next batch of others, which does not wait for it", async () => {
    const { writer, batches } = await opened();
    const may = [1, 2, 3].map((n) => writer.commit(accept(n), true));
    await writer.commit(accept(4));
    expect(batches).toEqual([4]);
    await Promise.all(may);
    await writer.close();
  });

  it("goes by itself when no others come, with all that wait meanwhile", async () => {
    const { writer, batches } = await opened();
    await Promise.all([1, 2, 3].map((n) => writer.commit(accept(n), true)));
    expect(batches).toEqual([3]);
    await writer.close();
  });

  it("waits for nobody any more where many wait, and when the writer is closed", async () => {
    const { writer, batches, path } = await opened();
    const many = Array.from({ length: 64 }, (_, n) => writer.commit(accept(n), true));
    expect(batches).toEqual([64]);
    await Promise.all(many);
    const last = writer.commit(accept(64), true);
    const closed = writer.close();
    expect(batches).toEqual([64, 1]);
    await last;
    await closed;
    const reader = await openReader(path, 512);
    expect(reader.count("due:")).toBe(65);
    reader.close();
  });

  it("refuses one whose condition does not hold, and no other of its batch", async () => {
    const { writer, batches } = await opened();
    const ends = await Promise.allSettled([
      writer.commit([{ op: "put", key: "meta:a", value: "1" }], true),
      writer.commit([{ op: "check", key: "meta:none", if: "there" }], true),
      writer.commit([{ op: "put", key: "meta:b", value: "1", if: null }], true),
    ]);
    expect(ends.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(batches).toEqual([3]);
    await writer.close();
  });
});

describe("the writer of sqlite()", () => {
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
