// What holds whatever keeps the records: commits of which nobody knows yet, or ever, whether they have happened.
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { embedded } from "../../plugins/storage/embedded/storage.ts";
import { claim, due, lineOf } from "../conformance/queue.ts";

/** Opens a storage whose commits can be read at once, and end as this does. */
async function openEarly(end: () => Promise<void> | void): Promise<Storage> {
  const map = sortedMap();
  return embedded(
    {
      name: "early",
      durability: "volatile",
      async commit(changes) {
        for (const change of changes) if (change.op === "put") map.set(change.key, change.value);
        await end();
      },
      getMany: async (keys) => keys.map(map.get),
      range: async (prefix, range) => map.range(prefix, range),
      count: async () => 0,
      status: async () => ({}),
      close: async () => {},
    },
    systemClock(),
  );
}

it("gives out no line that can be read before its commit has ended, and loses none", async () => {
  const sync = Promise.withResolvers<void>();
  const storage = await openEarly(() => sync.promise);
  const lines = [due("a", 1, 1), due("a", 2, 2), due("a", 3, 3)];
  const commits = lines.map((one) => storage.commit([lineOf(one)]));
  expect(await storage.queue.sweep()).toBe(0);
  expect(await claim(storage.queue)).toEqual([]);
  sync.resolve();
  await Promise.all(commits);
  expect(await storage.queue.sweep()).toBe(3);
  expect(await claim(storage.queue)).toMatchObject(lines);
  await storage.dispose();
});

it("counts no lines of a commit that failed", async () => {
  let works = true;
  const storage = await openEarly(() => {
    if (!works) throw new StorageError("unavailable", "no disk");
  });
  await storage.commit([lineOf(due("a", 1, 1))]);
  const before = await storage.queue.depth();
  works = false;
  await expect(storage.commit([lineOf(due("a", 2, 1))])).rejects.toThrow("no disk");
  expect(await storage.queue.depth()).toEqual(before);
  await storage.dispose();
});

it("shows caches a change that happened although its commit was uncertain", async () => {
  let answers = true;
  const storage = await openEarly(() => {
    if (!answers) throw new StorageError("uncertain", "the answer was lost");
  });
  using cache = createSubscriptionCache(storage);
  const whole = {
    keyId: "key_1",
    url: "https://x/",
    events: ["*"],
    secrets: [],
    generation: 1,
    createdAt: 0,
    updatedAt: 0,
  };
  const put = (id: string, status: string) =>
    storage.commit([
      { op: "put", key: SUBSCRIPTION.key({ keyId: "key_1", id }), value: JSON.stringify({ id, ...whole, status }) },
    ]);
  await put("sub_a", "active");
  expect(await cache.of("key_1")).toMatchObject([{ status: "active" }]);
  answers = false;
  await expect(put("sub_a", "disabled")).rejects.toThrow("the answer was lost");
  await expect(put("sub_b", "active")).rejects.toThrow("the answer was lost");
  expect(await cache.of("key_1")).toMatchObject([{ status: "disabled" }, { id: "sub_b" }]);
  // The same object each time: a delivery compares them to learn of changes.
  expect(await cache.get("key_1", "sub_b")).toBe(await cache.get("key_1", "sub_b"));
  await storage.dispose();
});

it("tells a backup of a commit of which nobody knows whether it has happened", async () => {
  const storage = await openEarly(() => {
    throw new StorageError("uncertain", "the answer was lost");
  });
  const told: boolean[] = [];
  storage.tap?.((_, certain) => void told.push(certain));
  await expect(storage.commit([lineOf(due("a", 1, 1))])).rejects.toThrow("the answer was lost");
  expect(told).toEqual([false]);
  await storage.dispose();
});
