// A commit of which nobody knows whether it has happened: what is kept of the changed records must be read again.
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { embedded } from "../../plugins/storage/embedded/storage.ts";

it("a change that happened although its commit was uncertain is seen by caches", async () => {
  const map = sortedMap();
  let answers = true;
  const storage = await embedded(
    {
      name: "doubtful",
      durability: "volatile",
      async commit(changes) {
        for (const change of changes) if (change.op === "put") map.set(change.key, change.value);
        if (!answers) throw new StorageError("uncertain", "the answer was lost");
      },
      getMany: async (keys) => keys.map(map.get),
      range: async (prefix, range) => map.range(prefix, range),
      count: async () => 0,
      status: async () => ({}),
      close: async () => {},
    },
    systemClock(),
  );
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
