// What changes between two reads of stored records, or between a read and the commit that rests on it.
import { describe, expect, it } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { DELIVERY, DUE, ENDING } from "../../core/model/schema.ts";
import { freshDelivery, putDelivery, putDue } from "../../core/records/delivery-records.ts";
import { createDeliveryReader } from "../../core/records/delivery-view.ts";
import { loadRecord } from "../../core/records/load-record.ts";
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
