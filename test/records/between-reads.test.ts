// What changes between two reads of stored records, or between a read and the commit that rests on it.
import { describe, expect, it } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { DELIVERY, DUE, ENDING, FANOUT, RETENTION, SNAPSHOT } from "../../core/model/schema.ts";
import { freshDelivery, putDelivery, putDue } from "../../core/records/delivery-records.ts";
import { createDeliveryReader } from "../../core/records/delivery-view.ts";
import { loadRecord } from "../../core/records/load-record.ts";
import { StorageError } from "../../core/model/errors.ts";
import { Marks } from "../../core/retention/marks.ts";
import { replied } from "../support/path.ts";
import { ACTOR, faults, pathOf } from "../support/ordered.ts";

it("a delivery whose first attempt ends between the reads of record and line is shown as it ended", async () => {
  const { test, sub } = await pathOf({});
  await using _ = test;
  const id = await test.publish();
  const { event } = (await test.parts.history.event("key_1", id)) ?? {};
  if (event === undefined) throw new Error("the event is not there");
  let reads = 0;
  const storage = {
    ...test.storage,
    getMany: async (keys: readonly string[]) => {
      if (++reads === 2) {
        await test.start();
        await test.answered(1);
      }
      return await test.storage.getMany(keys);
    },
  };
  const read = createDeliveryReader({ storage, subscriptionCache: test.parts.subscriptionCache });
  expect(await read([{ event, sub }])).toMatchObject([{ status: "delivered", attempts: [{ number: 1 }] }]);
});

it("a subscription that is disabled again while its mark is deleted ends what waits since", async () => {
  const { test, sub } = await pathOf({});
  await using _ = test;
  await test.publish();
  const of = { keyId: "key_1", subscriptionId: sub };
  const [line] = await test.storage.range(DUE.under({ subscriptionId: sub }));
  const { commit } = test.storage;
  let again = true;
  test.storage.commit = async (changes) => {
    if (again && changes.some(({ op, key }) => op === "delete" && key === ENDING.key(of))) {
      again = false;
      await commit([ENDING.put(of, "9"), { op: "put", key: line?.key ?? "", value: line?.value ?? "" }]);
      await commit([{ op: "delete", key: DELIVERY.key(DUE.id(line?.key ?? "")) }]);
    }
    return await commit(changes);
  };
  await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
  await test.parts.endings.finish("key_1", sub);
  expect(again).toBe(false);
  expect(await test.storage.range(ENDING.start)).toEqual([]);
  expect(await test.storage.range(DUE.under({ subscriptionId: sub }))).toEqual([]);
  expect(await faults(test)).toEqual([]);
});

it("a subscription that was disabled waits for no attempt that is under way", async () => {
  const { test, sub } = await pathOf({});
  await using _ = test;
  const { promise, resolve } = Promise.withResolvers<void>();
  test.answers = [() => promise.then(() => replied(500))];
  await test.start();
  const id = await test.publish();
  await test.whenSent(1);
  await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
  let reads = 0;
  const { range } = test.storage;
  test.storage.range = async (...given) => {
    if (++reads > 1_000) throw new Error("it reads again and again");
    return await range(...given);
  };
  await test.parts.endings.finish("key_1", sub);
  test.storage.range = range;
  resolve();
  await test.answered(1);
  expect(await test.status(id)).toBe("failed");
});

it("a wide event that a replay gives one more delivery while it is read does not count as ended", async () => {
  const { test } = await pathOf({}, { fanout: { perEvent: 1, few: 1, page: 1 } });
  await using _ = test;
  await test.subscribe();
  await test.start();
  const id = await test.publish();
  await test.answered(2);
  const { event } = (await test.parts.history.event("key_1", id)) ?? {};
  if (event === undefined) throw new Error("the event is not there");
  await test.parts.dispatcher.stop(0);
  await test.parts.replay.event("key_1", id, { subscriptionId: await test.subscribe() });
  await test.parts.wideStatus(event);
  const [row] = await test.storage.range(FANOUT.start);
  expect(FANOUT.read(row?.value ?? "")).toMatchObject({ state: "open" });
  expect(await test.status(id)).toBe("pending");
});

it("a list of subscriptions that could not be written is written for the next event", async () => {
  const { test } = await pathOf({}, { fanout: { perEvent: 1, few: 1, page: 1 } });
  await using _ = test;
  await test.subscribe();
  const { commit } = test.storage;
  test.storage.commit = (changes) =>
    changes.some(({ key }) => key.startsWith(SNAPSHOT.start))
      ? Promise.reject(new StorageError("unavailable", "no answer"))
      : commit(changes);
  await expect(test.publish()).rejects.toThrow();
  test.storage.commit = commit;
  const id = await test.publish();
  await test.start();
  await test.answered(2);
  expect(await test.status(id)).toBe("delivered");
});

it("retention reads a key from the beginning whose mark is damaged", async () => {
  const { test } = await pathOf({});
  await using _ = test;
  const marks = new Marks(test.storage, "delivered");
  const put = (value: string) => test.storage.commit([RETENTION.put({ rule: "delivered", keyId: "key_1" }, value)]);
  await put("01kajc7dvq8d8n8kx5p6q7r8s9");
  expect(await marks.from("key_1")).toBe("01kajc7dvq8d8n8kx5p6q7r8s9");
  await put("zzz?");
  expect(await marks.from("key_1")).toBeUndefined();
});

describe("a due line is refused by a record that differs in", () => {
  const line: Due = {
    ...{ subscriptionId: "sub_1", keyId: "key_1", ordinal: "01kajc7dvq8d8n8kx5p6q7r8s9" },
    ...{ dueAt: 9, generation: 3, cycle: 1, attempts: 0, waitMs: 0, order: { sequence: 1, place: 2 } },
  };
  it.each([
    ["its cycle", { cycle: 2 }],
    ["the generation of its subscription", { generation: 4 }],
    ["its attempts", { attempts: 1 }],
    ["its sequence", { order: { sequence: 2, place: 2 } }],
    ["its place", { order: { sequence: 1, place: 3 } }],
  ])("%s", async (_what, other) => {
    const { test } = await pathOf({});
    await using _ = test;
    await test.storage.commit([putDelivery(freshDelivery(line, "evt_1")), putDue(line)]);
    expect(await loadRecord(line, test.storage)).toMatchObject({ generation: 3 });
    await expect(loadRecord({ ...line, ...other }, test.storage)).rejects.toMatchObject({ damage: "misplaced" });
  });
});
