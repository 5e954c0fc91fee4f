// A storage has lost the row by which a pending delivery waits: it is made again from what other records still say.
import { describe, expect, it } from "vitest";
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import { DUE, FANOUT, HELD, SEQUENCE, WAITING } from "../../core/model/schema.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { heldOfSubscription } from "../../core/records/held.ts";
import type { SubscriptionFields } from "../../core/subscriptions/subscriptions.ts";
import { ACTOR, faults, ids, orderedPath, pathOf, publishAll } from "../support/ordered.ts";
import { replied, testPath, type PathOptions, type TestPath } from "../support/path.ts";
import { refusal } from "../support/refusal.ts";

const HOUR = 3_600_000;
const SWEEP_MS = 30_000;
const LATER: PathOptions = { retry: { firstDelayMs: HOUR, factor: 1 }, delivery: { holdMs: 1_000 } };

/** Loses rows in a storage that no relay uses, the n-th of each prefix; its queue is read anew. */
async function lose({ storage }: TestPath, sub: string, prefix: string, n = 0): Promise<void> {
  const [row] = (await storage.range(prefix)).slice(n);
  if (row === undefined) throw new Error(`nothing stands on ${prefix}`);
  await storage.queue.cancel(sub);
  await storage.commit([{ op: "delete", key: row.key }]);
  expect(await faults({ storage } as TestPath)).not.toEqual([]);
}

const linesOf = (sub: string): string => DUE.under({ subscriptionId: sub });
const repair = (storage: Storage) => verifyStorage(storage, { repair: storage });

/** Starts another relay on the same storage, and gives the deliveries time that it makes. */
async function startAgain(test: TestPath, count: number): Promise<TestPath> {
  const next = await testPath({ ...LATER, storage: test.storage, clock: test.clock });
  await next.start();
  for (let n = 0; n < 4 && next.sent.length < count; n++) await test.clock.advance(SWEEP_MS);
  await next.answered(count);
  await test.clock.advance(2 * HOUR);
  expect(await faults(next)).toEqual([]);
  return next;
}

/** Ordered, with three events that wait in it. */
async function three(fields: Partial<SubscriptionFields> = {}) {
  const { test, sub } = await orderedPath(fields, LATER);
  return { test, sub, made: await publishAll(test, [1, 2, 3]) };
}

describe("a pending delivery whose due line is missing", () => {
  it.each([0, 1])("is sent once when it is tried by hand, after %i attempts", async (before) => {
    const { test, sub } = await pathOf({}, LATER);
    await using _ = test;
    test.answers = Array.from({ length: before }, () => replied(500));
    if (before > 0) await test.start();
    const id = await test.publish();
    await test.answered(before);
    await lose(test, sub, linesOf(sub));
    await test.parts.pending.tryNow("key_1", id, sub, []);
    if (before === 0) await test.start();
    await test.answered(before + 1);
    expect(await test.status(id)).toBe("delivered");
    await test.clock.advance(2 * HOUR);
    expect(test.sent).toHaveLength(before + 1);
    expect(await faults(test)).toEqual([]);
  });

  it("is sent at its time once a replay was asked for, which says that it is pending", async () => {
    const { test, sub } = await pathOf({}, LATER);
    await using _ = test;
    const id = await test.publish();
    await lose(test, sub, linesOf(sub));
    expect((await refusal(test.parts.replay.event("key_1", id))).code).toBe("NOT_REPLAYABLE");
    await using next = await startAgain(test, 1);
    expect(ids(next)).toEqual([id]);
  });

  it("can be cancelled", async () => {
    const { test, sub } = await pathOf({}, LATER);
    await using _ = test;
    const id = await test.publish();
    await lose(test, sub, linesOf(sub));
    await test.parts.pending.cancel("key_1", id, sub, []);
    expect(await test.status(id)).toBe("cancelled");
    expect(await faults(test)).toEqual([]);
  });

  it("is replayed when its subscription has ended it since", async () => {
    const { test, sub } = await pathOf({}, LATER);
    await using _ = test;
    test.answers = [replied(500)];
    await test.start();
    const id = await test.publish();
    await test.answered(1);
    await lose(test, sub, linesOf(sub));
    await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
    await test.parts.subscriptions.update("key_1", sub, { status: "active" }, ACTOR);
    expect(await test.status(id)).toBe("failed");
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
    expect(await faults(test)).toEqual([]);
  });

  it("is sent once after two repairs at once, which find it both", async () => {
    const { test, sub } = await pathOf({}, LATER);
    await using _ = test;
    const id = await test.publish();
    await lose(test, sub, linesOf(sub));
    const found = await Promise.all([repair(test.storage), repair(test.storage)]);
    expect(found.map((one) => one.faults)).toEqual([[], []]);
    expect(found.some(({ repaired }) => repaired === 1)).toBe(true);
    await using next = await startAgain(test, 1);
    expect(ids(next)).toEqual([id]);
  });

  it("is written by its fan-out alone while that goes on, and made again when the line of that is missing", async () => {
    const { test, sub } = await pathOf({}, { ...LATER, fanout: { perEvent: 1, few: 1, page: 1 } });
    await using _ = test;
    const other = await test.subscribe();
    const id = await test.publish();
    expect((await test.storage.range(FANOUT.start)).length).toBe(1);
    expect((await refusal(test.parts.pending.tryNow("key_1", id, sub, []))).code).toBe("CONFLICT");
    const [line] = await test.storage.range(DUE.start);
    await test.storage.commit([{ op: "delete", key: line?.key ?? "" }]);
    await test.storage.queue.cancel("fan_key_1");
    expect(await repair(test.storage)).toMatchObject({ faults: [], repaired: 1 });
    await using next = await startAgain(test, 2);
    expect([...new Set(ids(next)), next.sent.length, other === sub]).toEqual([id, 2, false]);
  });
});

describe("an ordered subscription that has lost the row of a delivery", () => {
  it.each([
    ["the line of the one whose turn it is", (sub: string) => linesOf(sub), 0],
    ["the row of one that waits", (sub: string) => WAITING.under({ subscriptionId: sub }), 0],
    ["the row of the last that waits", (sub: string) => WAITING.under({ subscriptionId: sub }), 1],
  ])("sends all in order after a repair: %s", async (_what, prefix, n) => {
    const { test, sub, made } = await three();
    await using _ = test;
    await lose(test, sub, prefix(sub), n);
    expect(await repair(test.storage)).toMatchObject({ faults: [] });
    expect(await faults(test)).toEqual([]);
    await using next = await startAgain(test, 3);
    expect(ids(next)).toEqual(made);
  });

  it("goes on in order by itself at the start, once, though two relays start", async () => {
    const { test, sub, made } = await three();
    await using _ = test;
    await lose(test, sub, linesOf(sub));
    await using idle = await testPath({ storage: test.storage, clock: test.clock });
    await Promise.all([idle.parts.sweeper.start(), test.parts.sweeper.start()]);
    await using next = await startAgain(test, 3);
    expect(ids(next)).toEqual(made);
  });

  it("goes on at the start when the delivery whose turn it was has ended, or is gone with its record", async () => {
    const { test, sub, made } = await three();
    await using _ = test;
    const [head] = await test.storage.range(linesOf(sub));
    const gone = [
      head?.key ?? "",
      `delivery:${sub}:${head?.key.split(":").at(-1)}`,
      `event:key_1:${head?.key.split(":").at(-1)}`,
    ];
    await test.storage.queue.cancel(sub);
    await test.storage.commit(gone.map((key) => ({ op: "delete", key })));
    await using next = await startAgain(test, 2);
    expect(ids(next)).toEqual(made.slice(1));
  });

  it("sends all in order after a repair that was killed between its commits", async () => {
    const { test, sub, made } = await three();
    await using _ = test;
    await lose(test, sub, linesOf(sub));
    let left = 1;
    const dying: Storage = {
      ...test.storage,
      commit: (changes) => (left-- > 0 ? test.storage.commit(changes) : Promise.reject(new Error("killed"))),
    };
    await expect(verifyStorage(test.storage, { repair: dying })).rejects.toThrow("killed");
    await using next = await startAgain(test, 3);
    expect(ids(next)).toEqual(made);
  });

  it("sends one that waits when its turn comes, once it was to be tried by hand", async () => {
    const { test, sub, made } = await three();
    await using _ = test;
    await lose(test, sub, WAITING.under({ subscriptionId: sub }));
    const asked = test.parts.pending.tryNow("key_1", made[1] as string, sub, []);
    expect((await refusal(asked)).code).toBe("NOT_PENDING");
    await using next = await startAgain(test, 3);
    expect(ids(next)).toEqual(made);
  });

  it.each(["start", "repair"])("holds them up again behind the one that failed (%s)", async (how) => {
    const { test, sub, made } = await orderedPath({ onFailed: "hold", retry: { attempts: 1 } }).then(async (one) => ({
      ...one,
      made: await publishAll(one.test, [1, 2, 3]),
    }));
    await using _ = test;
    test.answers = [replied(500)];
    await test.start();
    await test.answered(1);
    await test.parts.dispatcher.stop(0);
    await lose(test, sub, HELD.under({ subscriptionId: sub }));
    if (how === "repair") expect(await repair(test.storage)).toMatchObject({ faults: [], repaired: 1 });
    await using next = await testPath({ storage: test.storage, clock: test.clock });
    await next.start();
    await test.clock.advance(SWEEP_MS);
    expect(await heldOfSubscription(test.storage, sub)).toMatchObject([{ row: { eventId: made[0], place: 1 } }]);
    expect([next.sent, await faults(test)]).toEqual([[], []]);
    await next.parts.replay.event("key_1", made[0] as string);
    await next.answered(3);
    expect(ids(next)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("sends all in order after a repair when the row of the sequence is missing too", async () => {
    const { test, sub, made } = await three();
    await using _ = test;
    await lose(test, sub, linesOf(sub));
    await lose(test, sub, SEQUENCE.under({ keyId: "key_1", subscriptionId: sub }));
    expect(await repair(test.storage)).toMatchObject({ faults: [] });
    await using next = await startAgain(test, 3);
    expect(ids(next)).toEqual(made);
  });
});
