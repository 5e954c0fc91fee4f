import memoryDriver from "unstorage/drivers/memory";
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { MAX_BATCH_BYTES } from "../../core/model/event.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { ITEMS } from "../../plugins/storage/unstorage/items.ts";
import { type Journal, Store } from "../../plugins/storage/unstorage/store.ts";
import { testClock, turn } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";

/** A store whose items follow its journal. */
function storeOn(append: Journal["append"], sync: () => Promise<void>): Store {
  const driver = memoryDriver();
  const journal = { append, uncertain: false, rotate: async () => async () => {}, close: async () => {} };
  return new Store({
    driver,
    form: ITEMS,
    keys: sortedMap(),
    journal,
    log: quietLog(),
    behind: testClock(),
    sync,
  });
}

it("full batches of many publishers at once share no sync beyond what fits into memory, and all are stored", async () => {
  const groups: number[] = [];
  const store = storeOn(
    async (commits) => void groups.push(commits.length),
    async () => {},
  );
  const value = "x".repeat(MAX_BATCH_BYTES);
  await Promise.all(Array.from({ length: 64 }, (_, n) => store.commit([{ op: "put", key: `event:k:${n}`, value }])));
  expect(groups.reduce((sum, count) => sum + count, 0)).toBe(64);
  expect(Math.max(...groups)).toBe(1);
  // Small ones still share one.
  groups.length = 0;
  await Promise.all(
    Array.from({ length: 500 }, (_, n) => store.commit([{ op: "put", key: `event:k:${n}`, value: "x".repeat(600) }])),
  );
  expect(groups).toEqual([500]);
  await store.close();
});

it("commits are refused, and wait for nothing, while the files are far behind and cannot follow", async () => {
  // A commit that tried until there is room would be taken in the end.
  let tries = 100;
  const store = storeOn(
    async () => {},
    async () => {
      if (tries-- > 0) throw new StorageError("full", "no space left on device");
    },
  );
  // As much as the files may be behind.
  const value = "x".repeat(8 << 20);
  for (let n = 0; n < 4; n++) await store.commit([{ op: "put", key: `event:k:${n}`, value }]);
  await expect(store.commit([{ op: "put", key: "event:k:4", value: "x" }])).rejects.toMatchObject({ fault: "full" });
  expect(await store.getMany(["event:k:4"])).toEqual([undefined]);
  tries = 0;
  await store.commit([{ op: "put", key: "event:k:5", value: "x" }]);
  await store.close();
});

it("a value that is committed while an older one is written to its file is what is read then", async () => {
  const clock = testClock();
  const items = new Map<string, string>();
  const [writing, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const driver = {
    getItem: async (name: string) => items.get(name) ?? null,
    async setItem(name: string, value: string) {
      writing.resolve();
      await written.promise;
      items.set(name, value);
    },
  };
  const journal = {
    append: async () => {},
    rotate: async () => async () => {},
    uncertain: false,
    close: async () => {},
  };
  const form = {
    name: (key: string) => key,
    text: (_: string, value: string) => value,
    value: (_: string, item: unknown) => item as string,
  };
  const store = new Store({
    driver: driver as never,
    form,
    keys: sortedMap(),
    journal,
    log: quietLog(),
    behind: clock,
  });
  await store.commit([{ op: "put", key: "event:a", value: "old" }]);
  await clock.advance(1_000);
  await writing.promise;
  await store.commit([{ op: "put", key: "event:a", value: "new" }]);
  written.resolve();
  for (let turns = 0; turns < 5; turns++) await turn();
  expect(await store.getMany(["event:a"])).toEqual(["new"]);
  await store.close();
  expect(items.get("event:a")).toBe("new");
});
