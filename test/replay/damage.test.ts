// A damaged row of one event keeps no other failed delivery from being replayed, by hand or by the job.
import { expect, it } from "vitest";
import { ConflictError, StorageError } from "../../core/model/errors.ts";
import { DELIVERY, EVENT, FAILED, FANOUT } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { replied, type TestPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { until } from "../support/until.ts";
import { ended, publishMany, subscribers, widePath } from "../support/wide.ts";

const HOUR_MS = 3_600_000;
const JOB = { olderThanMs: 600_000, maxAgeMs: 72 * HOUR_MS, maxReplays: 24, limit: 100, perSecond: 1_000 };

/** Two events for each of these subscriptions, all of whose deliveries have failed; the next ones succeed. */
async function failedTwice(count: number) {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  const test = await widePath(clock, storage);
  const ids = await subscribers(test, count);
  test.otherwise = replied(500);
  await test.start();
  const events: string[] = [];
  for (let i = 0; i < 2; i++) {
    const [one] = await publishMany(test, 1);
    await until(ended(test, one?.id ?? ""));
    events.push(one?.id ?? "");
  }
  await clock.advance(HOUR_MS);
  test.otherwise = replied(200);
  return { test, clock, storage, ids, events };
}

/** Damages the row of the first wide event, and its own record. */
async function tearFirst(storage: Storage, itself = false): Promise<void> {
  const [{ key } = { key: "" }] = await storage.range(FANOUT.under({ keyId: "key_1" }));
  const keys = itself ? [key, EVENT.key(FANOUT.id(key))] : [key];
  await storage.commit(keys.map((one) => ({ op: "put", key: one, value: "torn" })));
}

const left = async (storage: Storage, ids: readonly string[]): Promise<number> =>
  (await Promise.all(ids.map((id) => storage.range(FAILED.under({ subscriptionId: id }))))).flat().length;

const byHand = async ({ parts }: TestPath, id = "", limit = 100) =>
  await parts.replay.failed({
    subscription: (await parts.subscriptionCache.get("key_1", id)) as Subscription,
    limit,
    perSecond: 1_000,
  });

it.each(["by hand", "by the job", "event by event"])(
  "replays %s what a damaged row of a wide event has",
  async (how) => {
    const { test, clock, storage, ids, events } = await failedTwice(6);
    await using _ = test;
    await tearFirst(storage);
    const shown = await Promise.all(events.map((id) => test.parts.history.event("key_1", id)));
    expect(shown.map((one) => one?.damaged)).toEqual([true, false]);
    expect(shown.map((one) => one?.deliveries.length)).toEqual([6, 6]);
    if (how === "by the job") expect(await test.parts.replayJob(JOB, new AbortController().signal)).toBe(12);
    else if (how === "by hand") for (const id of ids) expect(await byHand(test, id)).toMatchObject({ replayed: 2 });
    else for (const id of events) expect(await test.parts.replay.event("key_1", id)).toBe(6);
    await clock.advance(HOUR_MS);
    await until(async () => (await left(storage, ids)) === 0);
    for (const id of events) await until(async () => (await test.status(id)) === "delivered");
  },
);

it("passes over a damaged row of a wide event that is damaged itself", async () => {
  const { test, storage, ids } = await failedTwice(6);
  await using _ = test;
  await tearFirst(storage, true);
  const [one = "", ...others] = ids;
  // One that cannot be replayed takes no place of the limit: it would keep the others from it for ever.
  expect(await byHand(test, one, 1)).toEqual({ matched: 2, replayed: 1, more: false });
  for (const id of others) expect(await byHand(test, id)).toEqual({ matched: 2, replayed: 1, more: false });
});

it("replays by the job what stands behind more than it moves at once that cannot be replayed", async () => {
  const { test, storage, ids } = await failedTwice(6);
  await using _ = test;
  await tearFirst(storage, true);
  const moved = await test.parts.replayJob({ ...JOB, limit: 1 }, new AbortController().signal);
  expect([moved, await left(storage, ids)]).toEqual([1, 11]);
});

it("replays a delivery whose record the storage itself cannot read, and those behind it", async () => {
  const { test, clock, storage, ids } = await failedTwice(2);
  await using _ = test;
  const [id = ""] = ids;
  const [first] = await storage.range(FAILED.under({ subscriptionId: id }));
  const key = DELIVERY.key({ subscriptionId: id, ordinal: first?.key.split(":")[2] ?? "" });
  const { getItem, getMany, commit } = storage;
  let torn = true;
  const unreadable = (): Promise<never> => Promise.reject(new StorageError("broken", "the record cannot be read"));
  storage.getItem = (one, ...more) => (torn && one === key ? unreadable() : getItem.call(storage, one, ...more));
  storage.getMany = (keys) => (torn && keys.includes(key) ? unreadable() : getMany.call(storage, keys));
  // Such a storage judges what it cannot read as an empty text.
  storage.commit = async (changes) => {
    const own = changes.some((one) => one.key === key);
    const judged = changes.map((one) => {
      if (!torn || one.key !== key || one.op === "check" || one.if === undefined) return one;
      if (one.if !== "") throw new ConflictError([key]);
      return one.op === "put" ? ({ op: "put", key, value: one.value } as const) : ({ op: "delete", key } as const);
    });
    await commit.call(storage, judged);
    if (own) torn = false;
  };
  expect(await byHand(test, id)).toMatchObject({ matched: 2, replayed: 2 });
  await clock.advance(HOUR_MS);
  await until(async () => (await storage.range(FAILED.under({ subscriptionId: id }))).length === 0);
});
