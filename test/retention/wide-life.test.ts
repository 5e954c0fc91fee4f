// The life of an event for more subscriptions than a commit holds: it is read, replayed, removed.
import { describe, expect, it } from "vitest";
import { SNAPSHOT } from "../../core/model/schema.ts";
import { holdSettles, replied } from "../support/path.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import * as wide from "../support/wide.ts";
import type { TestPath } from "../support/path.ts";
import { until } from "../support/until.ts";

const DAY_MS = 86_400_000;

async function room(count: number): Promise<{ readonly test: TestPath; readonly ids: string[] }> {
  const clock = testClock();
  const test = await wide.widePath(clock, await memory().setup(pluginContext(clock, "/nonexistent")));
  return { test, ids: await wide.subscribers(test, count) };
}

const publish = async (test: TestPath): Promise<string> => (await wide.publishMany(test, 1))[0]?.id as string;
const prefixes = async ({ storage }: TestPath): Promise<readonly string[]> => [
  ...new Set((await storage.range("", { limit: 100_000 })).map(({ key }) => key.slice(0, key.indexOf(":")))),
];
const retain = (test: TestPath): Promise<number> =>
  test.parts.retention.run({ deliveredAfterMs: DAY_MS }, new AbortController().signal);

describe("an event for more subscriptions than a commit holds", () => {
  it("is shown with its deliveries in pages, and is pending until the last has ended", async () => {
    const { test, ids } = await room(17);
    await using _ = test;
    const id = await publish(test);
    const history = test.parts.history;
    const seen: string[] = [];
    for (let from: number | undefined = 0; from !== undefined;) {
      const page = await history.event("key_1", id, { from, limit: 6 });
      expect(page?.status).toBe("pending");
      seen.push(...(page?.deliveries ?? []).map(({ delivery }) => delivery.subscriptionId));
      from = page?.next;
    }
    expect(seen).toEqual(ids);
    // The last one is not answered before all others are.
    const { promise, resolve } = Promise.withResolvers<void>();
    test.otherwise = async ({ subscriptionId }) => {
      if (subscriptionId === ids[11]) await promise;
      return replied(200);
    };
    await test.start();
    await until(
      async () => Object.values(await wide.outcomes(test, id)).filter((one) => one === "delivered").length === 16,
    );
    expect(await test.status(id)).toBe("pending");
    resolve();
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("delivered");
  });

  it("is found by any of its subscriptions, and by its status", async () => {
    const { test, ids } = await room(9);
    await using _ = test;
    const id = await publish(test);
    const other = await test.subscribe(["withdraw:sent"]);
    const list = async (filter: object): Promise<readonly string[]> =>
      (await test.parts.history.events("key_1", filter, { limit: 10 })).items.map(({ event }) => event.id);
    expect(await list({ subscriptionId: ids[8] })).toEqual([id]);
    expect(await list({ subscriptionId: other })).toEqual([]);
    expect(await list({ status: "delivered" })).toEqual([]);
    await test.start();
    await until(wide.ended(test, id));
    expect(await list({ status: "delivered" })).toEqual([id]);
    expect(await list({ status: "pending" })).toEqual([]);
  });

  it("is read without its deliveries once all have ended", async () => {
    const { test } = await room(40);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    let rows = 0;
    const { getMany } = test.storage;
    test.storage.getMany = (keys) => {
      rows += keys.length;
      return getMany(keys);
    };
    expect(await test.status(id)).toBe("delivered");
    expect(rows).toBeLessThan(10);
  });

  it("goes again to those where it failed, and is pending again until they have ended", async () => {
    const { test, ids } = await room(23);
    await using _ = test;
    const failing = new Set([ids[3], ids[20]]);
    test.otherwise = async ({ subscriptionId }) => replied(failing.has(subscriptionId) ? 500 : 200);
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("failed");
    test.otherwise = replied(200);
    const held = holdSettles(test.storage);
    expect(await test.parts.replay.event("key_1", id)).toBe(2);
    expect(await test.status(id)).toBe("pending");
    held.letGo();
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("delivered");
    expect(test.sent).toHaveLength(25);
    expect(await wide.faults(test.storage)).toEqual([]);
  });

  it("goes again with all failed ones of one subscription, and by force to all", async () => {
    const { test, ids } = await room(8);
    await using _ = test;
    test.otherwise = replied(500);
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("failed");
    test.otherwise = replied(200);
    const [subscription] = await test.parts.subscriptionCache.of("key_1");
    await test.parts.replay.failed({ subscription: subscription as never, limit: 10, perSecond: 1_000 });
    await until(async () => (await wide.outcomes(test, id))[ids[0] as string] === "delivered");
    expect(await test.status(id)).toBe("failed");
    expect(await test.parts.replay.event("key_1", id, { force: true })).toBe(8);
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("delivered");
  });

  it("goes again in few commits, also where one of its deliveries changes meanwhile", async () => {
    const { test, ids } = await room(30);
    await using _ = test;
    test.otherwise = replied(500);
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    const { commit } = test.storage;
    const sizes: number[] = [];
    let first = true;
    test.storage.commit = async (changes) => {
      if (first) {
        first = false;
        const subscription = (await test.parts.subscriptionCache.get("key_1", ids[7] as string)) as never;
        await test.parts.replay.failed({ subscription, limit: 1, perSecond: 1_000 });
      }
      sizes.push(changes.length);
      return commit(changes);
    };
    test.otherwise = replied(200);
    const also = [
      {
        op: "put",
        key: "audit:key_1:x",
        value: JSON.stringify({ at: 1, by: "a", action: "access", target: "b", result: "done" }),
      },
    ] as const;
    expect(await test.parts.replay.event("key_1", id, { also })).toBe(29);
    await until(wide.ended(test, id));
    expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(ids, "delivered"));
    expect(test.sent).toHaveLength(60);
    // The second time nothing changes meanwhile.
    sizes.length = 0;
    expect(await test.parts.replay.event("key_1", id, { force: true, also })).toBe(30);
    expect(sizes).toHaveLength(1);
    await until(wide.ended(test, id));
    expect(test.sent).toHaveLength(90);
    expect(await wide.faults(test.storage)).toEqual([]);
  });

  it("is made for a new subscriber by a replay, beside its own list", async () => {
    const { test, ids } = await room(8);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    expect(await test.status(id)).toBe("delivered");
    const late = await test.subscribe();
    expect(await test.parts.replay.event("key_1", id, { subscriptionId: late })).toBe(1);
    await until(wide.ended(test, id));
    expect(await wide.outcomes(test, id)).toEqual(wide.everyOne([...ids, late], "delivered"));
    expect(await wide.faults(test.storage)).toEqual([]);
    await test.clock.advance(2 * DAY_MS);
    expect(await retain(test)).toBe(1);
    expect(await test.storage.range("delivery:")).toEqual([]);
  });

  it("is known again by its id, with as many deliveries", async () => {
    const { test } = await room(8);
    await using _ = test;
    const [first] = await wide.publishMany(test, 1, { id: "order-1" });
    const [again] = await wide.publishMany(test, 1, { id: "order-1" });
    expect(again).toEqual({ ...first, duplicate: true });
    await test.start();
    await until(wide.ended(test, "order-1"));
    expect(test.sent).toHaveLength(8);
  });
});

describe("retention of events for many subscriptions", () => {
  it("removes all rows of one that is old, and its snapshot once no event uses it", async () => {
    const { test } = await room(310);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    await test.clock.advance(2 * DAY_MS);
    const second = await publish(test);
    await until(wide.ended(test, second));
    expect(await retain(test)).toBe(1);
    expect(await wide.faults(test.storage)).toEqual([]);
    expect(await test.storage.range("fanout:")).toHaveLength(1);
    expect(await wide.outcomes(test, second)).toBeDefined();
    await test.clock.advance(2 * DAY_MS);
    expect(await retain(test)).toBe(1);
    // Closed by this run, gone with the next.
    expect(await test.storage.range(SNAPSHOT.under({ keyId: "key_1" }))).toHaveLength(1);
    expect(await retain(test)).toBe(0);
    expect(
      (await prefixes(test)).filter(
        (shelf) => !["audit", "count", "key", "keytype", "retention", "subscription", "type"].includes(shelf),
      ),
    ).toEqual([]);
  });

  it("costs nothing for those that stay: failed ones, and what another rule keeps for longer", async () => {
    const { test } = await room(9);
    await using _ = test;
    test.otherwise = replied(500);
    await test.start();
    const failed = await wide.publishMany(test, 7);
    for (const { id } of failed) await until(wide.ended(test, id));
    test.otherwise = replied(200);
    const delivered = await wide.publishMany(test, 7, { type: "deposit:paid" });
    for (const { id } of delivered) await until(wide.ended(test, id));
    const types = { "deposit:paid": { deliveredAfterMs: 30 * DAY_MS } };
    const run = (): Promise<number> =>
      test.parts.retention.run({ deliveredAfterMs: DAY_MS, types }, new AbortController().signal);
    await test.clock.advance(2 * DAY_MS);
    expect(await run()).toBe(0);
    await test.clock.advance(2 * DAY_MS);
    let events = 0;
    const { getMany } = test.storage;
    test.storage.getMany = async (keys) => {
      events += keys.filter((key) => key.startsWith("event:")).length;
      return await getMany(keys);
    };
    expect(await run()).toBe(0);
    expect(events).toBe(0);
    await test.clock.advance(28 * DAY_MS);
    expect(await run()).toBe(7);
    const [again] = failed;
    await test.parts.replay.event("key_1", again?.id ?? "");
    await until(async () => (await test.status(again?.id ?? "")) === "delivered");
    await test.clock.advance(31 * DAY_MS);
    expect(await run()).toBe(1);
  });

  it("keeps one that is pending, however old", async () => {
    const { test, ids } = await room(9);
    await using _ = test;
    const id = await publish(test);
    await test.clock.advance(40 * DAY_MS);
    expect(await retain(test)).toBe(0);
    await test.start();
    await until(wide.ended(test, id));
    expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(ids, "delivered"));
  });

  it("goes on where a run was cut off, and what is half removed is no fault", async () => {
    const { test } = await room(1_100);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    await test.clock.advance(2 * DAY_MS);
    const { commit } = test.storage;
    let left = 3;
    test.storage.commit = (changes) => (left-- > 0 ? commit(changes) : Promise.reject(new Error("killed")));
    await expect(retain(test)).rejects.toThrow("killed");
    test.storage.commit = commit;
    const rest = await test.storage.range("delivery:", { limit: 2_000 });
    expect(rest.length).toBeGreaterThan(0);
    expect(rest.length).toBeLessThan(1_100);
    expect(await wide.faults(test.storage)).toEqual([]);
    expect(await test.parts.history.event("key_1", id)).toBeUndefined();
    await retain(test);
    expect(await test.storage.range("delivery:")).toEqual([]);
    expect(await test.storage.range("fanout:")).toEqual([]);
  });

  it("removes no snapshot under an event that is being stored", async () => {
    const { test, ids } = await room(9);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    await test.clock.advance(2 * DAY_MS);
    // Published between any two commits of the runs that remove it.
    const { commit } = test.storage;
    const published: string[] = [];
    let inside = false;
    test.storage.commit = async (changes) => {
      await commit(changes);
      if (inside || !changes.some(({ key }) => key.startsWith("snapshot:") || key.startsWith("members:"))) return;
      inside = true;
      published.push(await publish(test));
      inside = false;
    };
    for (let runs = 0; runs < 4; runs++) {
      await retain(test);
      for (const one of published) await until(wide.ended(test, one));
      await test.clock.advance(2 * DAY_MS);
    }
    test.storage.commit = commit;
    expect(published.length).toBeGreaterThan(1);
    expect(test.sent).toHaveLength((published.length + 1) * ids.length);
    expect(await wide.faults(test.storage)).toEqual([]);
  });

  it("leaves alone what a replay opens while it looks", async () => {
    const { test, ids } = await room(9);
    await using _ = test;
    const id = await publish(test);
    await test.start();
    await until(wide.ended(test, id));
    await test.clock.advance(2 * DAY_MS);
    const { commit } = test.storage;
    test.storage.commit = async (changes) => {
      test.storage.commit = commit;
      await test.parts.replay.event("key_1", id, { subscriptionId: ids[4], force: true });
      await commit(changes);
    };
    expect(await retain(test)).toBe(0);
    await until(wide.ended(test, id));
    expect(test.sent).toHaveLength(10);
    expect(await wide.faults(test.storage)).toEqual([]);
  });
});
