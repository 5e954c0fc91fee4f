// What could make an ordered subscription wait for ever: damage, settings that change, and crashes in between.
import type { SubscriptionFields } from "../../core/subscriptions/subscriptions.ts";
import { describe, expect, it } from "vitest";
import { DELIVERY, ENDING, HELD, PASSED, SEQUENCE, SUBSCRIPTION, WAITING } from "../../core/model/schema.ts";
import { heldOfSubscription } from "../../core/records/held.ts";
import { countWaiting } from "../../core/records/sequence-rows.ts";
import * as ordered from "../support/ordered.ts";
import { ACTOR, faults, ids, settle } from "../support/ordered.ts";
import { replied, type TestPath } from "../support/path.ts";

/** The relay looks for what nothing holds up any more this often. */
const SWEEP_MS = 30_000;

const orderedPath = (fields: Partial<SubscriptionFields> = {}) =>
  ordered.orderedPath({ retry: { attempts: 1 }, ...fields });
const publishAll = (test: TestPath, count: number): Promise<string[]> =>
  ordered.publishAll(
    test,
    Array.from({ length: count }, (_, n) => ({ n })),
  );

/** Changes the last character of a row. */
async function damage(test: TestPath, key: string): Promise<void> {
  const text = await test.storage.getItem(key);
  if (text === undefined) throw new Error(`there is no ${key}`);
  await test.storage.commit([{ op: "put", key, value: `${text.slice(0, -1)}?` }]);
}

const only = async (test: TestPath, prefix: string): Promise<string> =>
  (await test.storage.range(prefix, { limit: 1 }))[0]?.key ?? "nothing";

/** One has failed and holds up two others. */
async function heldUp(): Promise<{ readonly test: TestPath; readonly sub: string; readonly made: readonly string[] }> {
  const { test, sub } = await orderedPath({ onFailed: "hold" });
  test.answers = [replied(500)];
  const made = await publishAll(test, 3);
  await test.start();
  await test.answered(1);
  expect(await heldOfSubscription(test.storage, sub)).toHaveLength(1);
  return { test, sub, made };
}

describe("what waits behind a held delivery goes on", () => {
  it("when the subscription is set to pass failed ones", async () => {
    const { test, sub, made } = await heldUp();
    await using _ = test;
    await test.parts.subscriptions.update("key_1", sub, { onFailed: "skip" }, ACTOR);
    await test.answered(3);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("when the subscription is not ordered any more", async () => {
    const { test, sub, made } = await heldUp();
    await using _ = test;
    await test.parts.subscriptions.update("key_1", sub, { ordered: false }, ACTOR);
    await test.answered(3);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("when it failed by settings that were changed during the attempt", async () => {
    const { test, sub } = await orderedPath({ onFailed: "hold" });
    await using _ = test;
    const { promise, resolve } = Promise.withResolvers<void>();
    test.answers = [() => promise.then(() => replied(500))];
    const made = await publishAll(test, 2);
    await test.start();
    await test.whenSent(1);
    await test.parts.subscriptions.update("key_1", sub, { onFailed: "skip" }, ACTOR);
    resolve();
    await settle(test);
    for (let n = 0; n < 3 && test.sent.length < 2; n++) await test.clock.advance(SWEEP_MS);
    await test.answered(2);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("and ends, when a crash came between the disabling and that", async () => {
    const { test, sub, made } = await heldUp();
    await using _ = test;
    const key = SUBSCRIPTION.key({ keyId: "key_1", id: sub });
    const known = SUBSCRIPTION.orThrow((await test.storage.getItem(key)) ?? "", key);
    const disabled = { ...known, status: "disabled", generation: known.generation + 1 } as const;
    await test.storage.commit([{ op: "put", key, value: SUBSCRIPTION.write(disabled) }]);
    for (let n = 0; n < 4 && (await test.storage.range("waiting:")).length > 0; n++) await test.clock.advance(SWEEP_MS);
    await settle(test);
    for (const id of made) expect(await test.status(id)).toBe("failed");
    expect(ids(test)).toEqual([made[0]]);
    expect(await heldOfSubscription(test.storage, sub)).toEqual([]);
    expect(await faults(test)).toEqual([]);
  });

  it("only when it is skipped, also where what an earlier disabling ended is still being written", async () => {
    const { test, sub, made } = await heldUp();
    await using _ = test;
    await test.storage.commit([ENDING.put({ keyId: "key_1", subscriptionId: sub }, "0")]);
    await test.parts.endings.finish("key_1", sub);
    expect(await test.storage.range(ENDING.start)).toEqual([]);
    await settle(test);
    expect([ids(test), (await heldOfSubscription(test.storage, sub)).length]).toEqual([[made[0]], 1]);
  });

  it("not because the record of the subscription is damaged: nobody can say what it wants", async () => {
    const { test, sub } = await heldUp();
    await using _ = test;
    await damage(test, SUBSCRIPTION.key({ keyId: "key_1", id: sub }));
    await test.clock.advance(2 * SWEEP_MS);
    expect(await heldOfSubscription(test.storage, sub)).toHaveLength(1);
  });

  it("also when the row that holds it up is damaged: a skip is enough", async () => {
    const { test, sub, made } = await heldUp();
    await using _ = test;
    await damage(test, HELD.key({ subscriptionId: sub, sequence: 0 }));
    expect((await heldOfSubscription(test.storage, sub))[0]?.row).toBeUndefined();
    await test.parts.subscriptions.update("key_1", sub, { onFailed: "skip" }, ACTOR);
    await test.answered(3);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });
});

describe("a damaged row of an ordered subscription", () => {
  it("refuses no publication and keeps the order: the row of the sequence", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    const first = await publishAll(test, 3);
    await damage(test, SEQUENCE.key({ keyId: "key_1", subscriptionId: sub, sequence: 0 }));
    expect(await countWaiting(test.storage, "key_1")).toBe(2);
    const second = await publishAll(test, 3);
    expect(await faults(test)).toEqual([]);
    await test.start();
    await test.answered(6);
    expect(ids(test)).toEqual([...first, ...second]);
    expect(await countWaiting(test.storage)).toBe(0);
  });

  it("gives nobody a place that another one has, though the row of what has passed is damaged too", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    await test.start();
    const first = await publishAll(test, 3);
    await test.answered(3);
    await test.parts.dispatcher.stop(0);
    first.push(...(await publishAll(test, 2)));
    for (const kind of [SEQUENCE, PASSED])
      await damage(test, kind.key({ keyId: "key_1", subscriptionId: sub, sequence: 0 }));
    await test.publish();
    const places = (await test.storage.range(WAITING.start)).map(({ key }) => WAITING.id(key).place);
    expect(places).toEqual([5, 6]);
  });

  it("is rebuilt when the sequence ends too", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    const made = await publishAll(test, 2);
    await damage(test, SEQUENCE.key({ keyId: "key_1", subscriptionId: sub, sequence: 0 }));
    await test.start();
    await test.answered(2);
    made.push(await test.publish());
    await test.answered(3);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("does not make the count of those that wait wrong for good: the row of what has passed", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    await test.start();
    await test.publish();
    await test.answered(1);
    await damage(test, PASSED.key({ keyId: "key_1", subscriptionId: sub, sequence: 0 }));
    expect(await countWaiting(test.storage)).toBe(0);
    test.answers = [replied(200)];
    await publishAll(test, 3);
    await test.answered(4);
    expect(await faults(test)).toEqual([]);
    expect(await countWaiting(test.storage)).toBe(0);
  });

  it("loses no delivery: the row by which it waits", async () => {
    const { test } = await orderedPath();
    await using _ = test;
    const made = await publishAll(test, 3);
    await damage(test, await only(test, "waiting:"));
    await test.start();
    await test.answered(3);
    expect(ids(test)).toEqual(made);
    expect(await faults(test)).toEqual([]);
  });

  it("ends a delivery as failed whose record is damaged too, and those behind it go on", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    const made = await publishAll(test, 3);
    const waits = await only(test, "waiting:");
    const ordinal = waits.split(":")[4] as string;
    await damage(test, waits);
    await damage(test, DELIVERY.key({ subscriptionId: sub, ordinal }));
    await test.start();
    await test.answered(2);
    expect(ids(test)).toEqual([made[0], made[2]]);
    expect(await test.status(made[1] as string)).toBe("failed");
    expect(await faults(test)).toEqual([]);
  });

  it("stops nobody behind it: the due line and the record of the one whose turn it is", async () => {
    const { test, sub } = await orderedPath();
    await using _ = test;
    const made = await publishAll(test, 3);
    const due = await only(test, "due:");
    await damage(test, due);
    await damage(test, DELIVERY.key({ subscriptionId: sub, ordinal: due.split(":")[3] as string }));
    await test.start();
    // The queue knows the line as it was; the next sweep finds it as it is.
    for (let n = 0; n < 5 && test.sent.length < 2; n++) await test.clock.advance(SWEEP_MS);
    expect(test.sent).toHaveLength(2);
    await settle(test);
    expect(ids(test)).toEqual([made[1], made[2]]);
    expect(await test.status(made[0] as string)).toBe("failed");
    expect(await countWaiting(test.storage)).toBe(0);
    expect(await faults(test)).toEqual([]);
    made.push(await test.publish());
    await test.whenSent(3);
    expect(ids(test).at(-1)).toBe(made[3]);
  });
});

describe("an ordered subscription that is deleted", () => {
  it("leaves no row behind after its tombstone, not even one that is written at the same moment", async () => {
    const { test, sub } = await orderedPath({ orderBy: "data.n" });
    await using _ = test;
    await test.start();
    await publishAll(test, 3);
    await test.answered(3);
    await test.parts.subscriptions.remove("key_1", sub, ACTOR);
    // As an event does that was being accepted meanwhile.
    await test.storage.commit([
      { op: "put", key: SEQUENCE.key({ keyId: "key_1", subscriptionId: sub, sequence: 15 }), value: "any" },
    ]);
    await test.clock.advance(31 * 86_400_000);
    await test.clock.advance(SWEEP_MS);
    expect(await test.storage.range("sequence:")).toEqual([]);
    expect(await test.storage.range("passed:")).toEqual([]);
  });
});
