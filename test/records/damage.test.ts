// One record that cannot be read, and what lists and recurring work do for all others.
import { expect, it } from "vitest";
import { FANOUT, HELD, OVERLAP, SUBSCRIPTION } from "../../core/model/schema.ts";
import { skipForgotten } from "../../core/records/held.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { until } from "../support/until.ts";
import * as wide from "../support/wide.ts";

const damage = async ({ storage }: TestPath, keyId: string, id: string): Promise<void> =>
  await storage.commit([{ op: "put", key: SUBSCRIPTION.key({ keyId, id }), value: '{"id":"sub_' }]);

it("a wide event with a damaged snapshot is listed as damaged, and the others as they are", async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  let bad = "";
  let good = "";
  {
    await using test = await wide.widePath(clock, storage);
    await wide.subscribers(test, 9);
    good = await test.publish("withdraw:sent");
    bad = await test.publish();
    await test.start();
    await until(wide.ended(test, bad));
  }
  for (const { key } of await storage.range("members:")) await storage.commit([{ op: "put", key, value: "sub_x 1" }]);
  // A row that does not say yet that the event has ended: its deliveries must be read.
  for (const { key, value } of await storage.range("fanout:"))
    await storage.commit([{ op: "put", key, value: `${value.split(" ")[0]} open` }]);
  await using test = await testPath({ clock, storage });
  const list = async (filter: object) =>
    (await test.parts.history.events("key_1", filter, { limit: 10 })).items.map(({ event, damaged, status }) => ({
      id: event.id,
      damaged,
      status,
    }));
  expect(await list({})).toEqual([
    { id: bad, damaged: true, status: "failed" },
    { id: good, damaged: false, status: await test.status(good) },
  ]);
  expect(await list({ statusCode: 200 })).toEqual([]);
  // Its status is known from the row, its deliveries are not.
  for (const { key, value } of await storage.range("fanout:"))
    await storage.commit([
      FANOUT.put(FANOUT.id(key), { ...FANOUT.orThrow(value), state: "ended", status: "delivered", at: clock.now() }),
    ]);
  expect(await list({ statusCode: 200 })).toEqual([]);
  expect(await list({})).toMatchObject([{ id: bad, damaged: false, status: "delivered" }, { id: good }]);
  expect(await list({ subscriptionId: "sub_1" })).toEqual([]);
  expect(await test.parts.history.event("key_1", bad)).toMatchObject({ damaged: true, deliveries: [] });
  for (const filter of [{}, { subscriptionId: "sub_1" }])
    expect(await test.parts.searchAttempts("key_1", filter, { after: undefined, limit: 10 })).toEqual({ items: [] });
});

it("a damaged subscription of one key does not keep the replay job from the others", async () => {
  await using test = await testPath({ retry: { attempts: 1 } });
  const owners = new Map<string, string>();
  for (const keyId of ["key_a", "key_b"]) owners.set(await test.subscribe(["*"], keyId), keyId);
  test.otherwise = replied(500);
  await test.start();
  for (const keyId of owners.values()) await test.publish("deposit:paid", { keyId });
  await test.whenSent(2);
  await test.clock.advance(60_000);
  // The one that comes first in the index.
  const [first = ""] = [...owners.keys()].toSorted();
  await damage(test, owners.get(first) as string, first);
  const job = { olderThanMs: 0, maxAgeMs: 86_400_000, maxReplays: 3, limit: 100, perSecond: 100 };
  expect(await test.parts.replayJob(job, new AbortController().signal)).toBe(1);
});

it("a damaged subscription of one key does not keep the notices of the others", async () => {
  await using test = await testPath({ notify: { pendingPerKey: 1 } });
  const ends = test.clock.now() + 60_000;
  for (const keyId of ["key_a", "key_b"]) {
    const id = await test.subscribe(["*"], keyId);
    // A row that is done with: the look deletes it unless it ends before that.
    await test.storage.commit([
      { op: "put", key: OVERLAP.key({ at: ends - 60_001, keyId, subscriptionId: id }), value: String(ends) },
    ]);
    if (keyId === "key_a") await damage(test, keyId, id);
  }
  // So many are pending that keys are counted.
  for (let i = 0; i < 2; i++) await test.publish("deposit:paid", { keyId: "key_b" });
  let flushed = 0;
  const { notices } = test.parts;
  const flush = notices.flush.bind(notices);
  notices.flush = (...args) => (flushed++, flush(...args));
  await test.parts.noticeWatch.look(new AbortController().signal);
  expect(await test.storage.range("overlap:")).toEqual([]);
  expect(flushed).toBe(1);
});

it("a damaged subscription with a held delivery does not keep up the forgotten ones of others", async () => {
  await using test = await testPath();
  const row = (keyId: string) =>
    HELD.put(
      { subscriptionId: "sub_x", sequence: 0 },
      { keyId, ordinal: "0".repeat(26), place: 1, since: 1, eventId: "evt_x" },
    ).value;
  await test.storage.commit([
    { op: "put", key: HELD.key({ subscriptionId: "sub_a", sequence: 0 }), value: row("key_a") },
    { op: "put", key: HELD.key({ subscriptionId: "sub_b", sequence: 0 }), value: row("key_b") },
  ]);
  await damage(test, "key_a", "sub_a");
  expect(await skipForgotten(test.storage)).toBe(1);
});

it("an untried delivery whose due line is garbage fails under its own key, and a replay sends it", async () => {
  const clock = testClock();
  const before = await memory().setup(pluginContext(clock, "/nonexistent"));
  let id = "";
  {
    await using test = await testPath({ clock, storage: before });
    await test.subscribe();
    id = await test.publish();
  }
  // Another life: what was known of the line in memory is gone.
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  const rows = await before.range("", { limit: 1_000 });
  await storage.commit(
    rows.map(({ key, value }) => ({ op: "put", key, value: key.startsWith("due:") ? "\u0000" : value })),
  );
  await using test = await testPath({ clock, storage });
  await test.start();
  await until(async () => (await storage.range("due:")).length === 0);
  const [one] = (await test.parts.history.event("key_1", id))?.deliveries ?? [];
  expect(one?.delivery).toMatchObject({ keyId: "key_1", status: "failed", reason: "record_damaged" });
  expect(test.sent).toEqual([]);
  expect(await test.parts.replay.event("key_1", id)).toBe(1);
  await test.whenSent(1);
});
