// Every stored row of one key is garbage, a shelf at a time: the start, the sweeps, the lists and retention of all else go on.
import { beforeAll, describe, expect, it } from "vitest";
import { DUE, fanoutQueue, HEALTH, OVERLAP, STATS, SUSPENSION } from "../../core/model/schema.ts";
import type { Entry, Storage } from "../../core/ports/storage.ts";
import { createReplayJob } from "../../core/replay/replay-job.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PATIENCE = { timeout: 60_000 };
const ACTOR = { sub: "tester" };
const GARBAGE = ["", "\u0000garbage", "null", "[]", '{"a":'];
const health = { breakerAfter: 100, restMs: 1_000, maxRestMs: 2_000, disableAfterMs: 5 * DAY_MS } as never;
const never = new AbortController().signal;

/** @param stays how the keys of lines begin that stay */
async function settled(test: TestPath, stays = "due:garbage"): Promise<void> {
  const rows = async () => (await test.storage.range("due:")).filter(({ key }) => !key.startsWith(stays));
  await expect
    .poll(async () => {
      await test.clock.advance(20_000);
      return (await rows()).length + test.parts.dispatcher.underWay();
    }, PATIENCE)
    .toBe(0);
}

/** Rows of every shelf for a key: ordered, wide, failed and delivered deliveries, and what stands around them. */
async function lived(storage: Storage, clock: ReturnType<typeof testClock>): Promise<void> {
  await using test = await testPath({ storage, clock, retry: { attempts: 1 }, fanout: { perEvent: 3 }, health });
  const { subscriptions, publisher } = test.parts;
  for (let n = 0; n < 5; n++) await test.subscribe(["a:*"], "key_a");
  for (const onFailed of ["hold", "skip"] as const)
    await subscriptions.create(
      "key_a",
      { url: "https://x.example/o", events: ["o:*"], ordered: true, onFailed },
      ACTOR,
    );
  await test.start();
  test.otherwise = replied(500);
  for (const type of ["a:b", "o:one", "o:two"]) await test.publish(type, { keyId: "key_a", id: `id-${type.slice(2)}` });
  const text = JSON.stringify({ type: "a:b", keyId: "key_a", data: 1 });
  const idempotency = { scope: "s", key: "k", digest: "d" };
  await publisher.accept({ publications: [{ text, path: "" }], source: "test", idempotency });
  await test.clock.advance(60_000);
  while (test.parts.dispatcher.underWay() > 0) await test.clock.advance(1_000);
  const at = clock.now();
  const put = (key: string, value: string) => storage.commit([{ op: "put", key, value }]);
  const [sub] = await test.parts.subscriptionCache.of("key_a");
  await put(HEALTH.key({ subscriptionId: sub?.id ?? "" }), String(at));
  await put(OVERLAP.key({ at, keyId: "key_a", subscriptionId: sub?.id ?? "" }), String(at));
  await put(STATS.key({ keyId: "key_a", grain: "1h", at: at - (at % 3_600_000), node: "node" }), "{}");
  await put(SUSPENSION.key({ hash: "x" }), "{}");
  await put("erasing:key_a:00000000000000000000000000", "");
  await put("erasekey:key_c", "{}");
  await test.parts.replay.event("key_a", "id-b");
  await clock.advance(2 * DAY_MS);
  await test.parts.retention.run({ deliveredAfterMs: DAY_MS, failedAfterMs: 9 * DAY_MS }, never);
  await test.parts.dispatcher.stop(0);
  await test.publish("a:b", { keyId: "key_a", id: "late" });
}

const shelves = [
  ...["attempts", "audit", "count", "delivery", "due", "erasekey", "erasing", "event", "eventid", "failed"],
  ...["fanout", "health", "held", "key", "keytype", "members", "overlap", "passed", "recheck"],
  ...["retention", "sequence", "snapshot", "stats", "subscription", "suspension", "type", "waiting"],
];

it.each(GARBAGE)("an idempotency key whose record is %j is refused, and another one is taken", async (garbage) => {
  await using test = await testPath();
  const text = JSON.stringify({ type: "a:b", keyId: "key_a", data: 1 });
  const publish = (key: string) =>
    test.parts.publisher.accept({
      publications: [{ text, path: "" }],
      source: "test",
      idempotency: { scope: "s", key, digest: "d" },
    });
  await publish("one");
  for (const { key } of await test.storage.range("idempotency:"))
    await test.storage.commit([{ op: "put", key, value: garbage }]);
  await expect(publish("one")).rejects.toMatchObject({ code: "IDEMPOTENCY_MISMATCH" });
  expect(await publish("two")).toHaveLength(1);
  // It is gone after a day, like any other.
  await test.start();
  await test.clock.advance(DAY_MS + 600_000);
  expect(await publish("one")).toHaveLength(1);
});

it.each(GARBAGE)("a failed line that is %j keeps the replay job from no other of its subscription", async (garbage) => {
  await using test = await testPath({ retry: { attempts: 1 } });
  await test.subscribe();
  await test.start();
  test.otherwise = replied(500);
  for (let n = 0; n < 3; n++) await test.publish();
  await test.whenSent(3);
  await test.clock.advance(60_000);
  const [first] = await test.storage.range("failed:", { limit: 1 });
  await test.storage.commit([{ op: "put", key: first?.key ?? "", value: garbage }]);
  const { replay, subscriptionCache } = test.parts;
  const job = createReplayJob({ storage: test.storage, subscriptionCache, replay, clock: test.clock });
  const rule = { olderThanMs: 1_000, maxAgeMs: DAY_MS, maxReplays: 9, limit: 10, perSecond: 50 };
  expect(await job(rule, never)).toBe(2);
});

let left: { readonly now: number; readonly rows: readonly Entry[] };
beforeAll(async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  await lived(storage, clock);
  left = { now: clock.now(), rows: await storage.range("", { limit: 10_000 }) };
}, 60_000);

/** Those that are JSON get some that is of another kind. */
const JSON_SHELVES = ["audit", "erasekey", "stats", "subscription", "suspension"];

describe.each(shelves)("rows of %s that are garbage", (shelf) => {
  it("stop nothing else", PATIENCE, async () => {
    const garbage = JSON_SHELVES.includes(shelf) ? "null" : "\u0000garbage";
    const clock = testClock();
    await clock.advance(left.now - clock.now());
    const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
    await storage.commit(left.rows.map((row) => ({ op: "put", ...row })));
    const rows = await storage.range(`${shelf}:`, { limit: 1_000 });
    expect(rows.length).toBeGreaterThan(0);
    for (const { key } of rows) await storage.commit([{ op: "put", key, value: garbage }]);

    await using test = await testPath({ storage, clock, health, notify: { pending: 1, pendingPerKey: 1 } });
    const { parts } = test;
    const good = await test.subscribe(["a:*"], "key_b");
    await test.start();
    parts.keyErasure.start();
    parts.eventErasure.start();
    const id = await test.publish("a:b", { keyId: "key_b" });
    await expect.poll(() => test.sent.some(({ headers }) => headers["webhook-id"] === id), PATIENCE).toBe(true);
    await test.clock.advance(60_000);
    await parts.noticeWatch.look(never);

    // The key itself can be used, and everything of it listed.
    const other = await test.subscribe(["a:*"], "key_a");
    const again = await test.publish("a:b", { keyId: "key_a" });
    await expect.poll(() => test.sent.some(({ headers }) => headers["webhook-id"] === again), PATIENCE).toBe(true);
    const { items } = await parts.history.events("key_a", {}, { limit: 200 });
    expect(items.length).toBeGreaterThan(0);
    for (const sub of await parts.subscriptionCache.of("key_a"))
      for (const status of ["failed", "pending", "delivered"] as const)
        await parts.history.deliveries(sub, status, { limit: 200 });
    await parts.statsQuery.ofKey("key_a", "7d");
    await parts.statsQuery.ofRelay("24h");
    await parts.subscriptions.remove("key_a", other, ACTOR);
    const count = (await storage.getItem("count:key_a")) ?? "";
    expect(count).toMatch(/^\d+$/);

    // Retention of the others.
    // A fan-out whose members nobody can read waits for an operator.
    await settled(test, shelf === "members" ? DUE.under({ subscriptionId: fanoutQueue("key_a") }) : undefined);
    // More than a day, so that what is done once a day is done.
    await clock.advance(DAY_MS + HOUR_MS);
    await parts.retention.run({ deliveredAfterMs: DAY_MS, failedAfterMs: DAY_MS }, never);
    expect(await storage.range("event:key_b:")).toEqual([]);
    await parts.subscriptions.remove("key_b", good, ACTOR);
    // And a key can be erased, as well as the damaged one.
    for (const keyId of ["key_b", "key_a"]) await parts.keyErasure.erase(keyId, ACTOR);
    await expect
      .poll(async () => {
        await clock.advance(31_000);
        return (await storage.range("erasekey:")).map(({ key }) => key).filter((key) => key.includes("key_b"));
      }, PATIENCE)
      .toEqual([]);
  });
});
