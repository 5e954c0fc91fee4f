// A damaged record is never sent, ends with a reason, is counted and listed, and stops nothing else: on every storage.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import { StorageError } from "../../core/model/errors.ts";
import { DELIVERY, EVENT, FAILED } from "../../core/model/schema.ts";
import { flipped, PATIENCE, put, settled, stageOf, watching } from "../support/damage.ts";
import { replied, type TestPath } from "../support/path.ts";
import { everyStorage } from "../support/storages.ts";

const ordinalIn = (key: string): string => key.slice(key.lastIndexOf(":") + 1);
const sentIds = (test: TestPath): string[] => test.sent.map(({ headers }) => String(headers["webhook-id"]));
/** Bits to flip, other ones in each run. */
const bits = (count: number): number[] => fc.sample(fc.nat(1_000_000), count);

describe.each(everyStorage())("on $name", (any) => {
  const { missing } = any;
  const begin = stageOf(any);

  it.skipIf(missing)(
    "an event whose record has a flipped bit is not sent, and its neighbours are",
    PATIENCE,
    async () => {
      const { relay, storage } = await begin();
      const before = await relay();
      const sub = await before.subscribe();
      const ids: string[] = [];
      for (let n = 0; n < 20; n++) ids.push(await before.publish("deposit:paid", { data: { amount: 1000, n } }));
      const good = new Map<string, string>();
      for (const [n, { key, value }] of (await storage.range("event:")).entries()) {
        if (n % 2 === 0) continue;
        good.set(key, value);
        const text = n === 1 ? value.replace('"amount":1000', '"amount":9000') : flipped(value, bits(1)[0] as number);
        await put(storage, key, text);
      }
      // Another process: it holds no event in memory.
      const { metrics, count } = watching();
      const test = await relay({ metrics });
      await test.start();
      await settled(test);

      const healthy = ids.filter((_, n) => n % 2 === 0);
      expect(sentIds(test).toSorted()).toEqual(healthy.toSorted());
      expect(count("records_damaged event")).toBe(10);
      expect(count("deliveries damaged")).toBe(10);
      const subscription = await test.subscription(sub);
      const { items } = await test.parts.history.deliveries(subscription, "failed", { limit: 200 });
      expect(items.map(({ delivery }) => delivery.reason)).toEqual(Array(10).fill("record_damaged"));
      const events = (await test.parts.history.events("key_1", {}, { limit: 200 })).items;
      expect(events).toHaveLength(20);
      expect(
        events
          .filter(({ damaged }) => damaged)
          .map(({ event }) => EVENT.key({ keyId: "key_1", ordinal: event.ordinal }))
          .toSorted(),
      ).toEqual([...good.keys()].toSorted());
      const { faults } = await verifyStorage(storage);
      expect(faults.map(({ key }) => key).filter((key) => key.startsWith("event:"))).toEqual(
        [...good.keys()].toSorted(),
      );

      // A replay sends none of them…
      await expect(test.parts.replay.event("key_1", ids[1] as string)).rejects.toMatchObject({
        code: "NOT_REPLAYABLE",
      });
      const bulk = { subscription, limit: 100, perSecond: 1_000 };
      expect(await test.parts.replay.failed(bulk)).toMatchObject({ matched: 10, replayed: 0 });
      // …until they are as they were.
      for (const [key, value] of good) await put(storage, key, value);
      expect(await test.parts.replay.failed(bulk)).toMatchObject({ replayed: 10 });
      await settled(test);
      expect(sentIds(test).toSorted()).toEqual(ids.toSorted());
      expect((await verifyStorage(storage)).faults).toEqual([]);
    },
  );

  it.skipIf(missing)("an event that is gone, or stands under another's key, is not sent", PATIENCE, async () => {
    const { relay, storage } = await begin();
    const before = await relay();
    await before.subscribe();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await before.publish("deposit:paid", { data: n }));
    const rows = await storage.range("event:");
    await storage.commit([
      { op: "put", key: rows[0]?.key ?? "", value: rows[1]?.value ?? "" },
      { op: "put", key: rows[1]?.key ?? "", value: rows[0]?.value ?? "" },
      { op: "delete", key: rows[2]?.key ?? "" },
    ]);
    const { metrics, count } = watching();
    const test = await relay({ metrics });
    await test.start();
    await settled(test);
    expect(sentIds(test)).toEqual([ids[3]]);
    expect(count("records_damaged event")).toBe(3);
    expect((await storage.range("failed:")).map(({ value }) => FAILED.orThrow(value).reason)).toEqual(
      Array(3).fill("record_damaged"),
    );
  });

  it.skipIf(missing)("a delivery whose record has a flipped bit fails, and a replay sends it", PATIENCE, async () => {
    const { relay, storage } = await begin();
    const { metrics, count } = watching();
    // Every wait goes back to the queue: the next attempt reads the record.
    const test = await relay({ metrics, delivery: { holdMs: 0 }, retry: { firstDelayMs: 60_000, factor: 1 } });
    test.otherwise = replied(500);
    const sub = await test.open();
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) ids.push(await test.publish("deposit:paid", { data: n }));
    await test.whenSent(12);
    await expect
      .poll(async () => (await storage.range(DELIVERY.under({ subscriptionId: sub }))).length, PATIENCE)
      .toBe(12);
    const rows = await storage.range(DELIVERY.under({ subscriptionId: sub }));
    for (const [n, { key, value }] of rows.entries()) {
      if (n % 2 === 0) await put(storage, key, n === 0 ? "torn" : flipped(value, bits(1)[0] as number));
    }
    test.otherwise = replied(200);
    await settled(test);

    const ends = (await storage.range(DELIVERY.under({ subscriptionId: sub }))).map(({ value, key }) =>
      DELIVERY.orThrow(value, key),
    );
    expect(ends.map(({ status, reason }) => reason ?? status)).toEqual(
      rows.map((_, n) => (n % 2 === 0 ? "record_damaged" : "delivered")),
    );
    expect(ends.map(({ eventId }) => eventId)).toEqual(ids);
    expect(test.sent).toHaveLength(18);
    expect(count("records_damaged delivery")).toBe(6);
    expect((await verifyStorage(storage)).faults).toEqual([]);
    const subscription = await test.subscription(sub);
    const bulk = { subscription, limit: 100, perSecond: 1_000 };
    expect(await test.parts.replay.failed(bulk)).toMatchObject({ replayed: 6 });
    await settled(test);
    expect(test.sent).toHaveLength(24);
  });

  it.skipIf(missing)("a damaged record of an ended delivery makes no list fail", PATIENCE, async () => {
    const { relay, storage } = await begin();
    const test = await relay();
    const sub = await test.open();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await test.publish("deposit:paid", { data: n }));
    await settled(test);
    await test.parts.replay.event("key_1", ids[0] as string, { force: true });
    await settled(test);
    for (const prefix of ["attempts:", DELIVERY.under({ subscriptionId: sub })]) {
      const [row] = await storage.range(prefix, { limit: 1, reverse: prefix !== "attempts:" });
      await put(storage, row?.key ?? "", flipped(row?.value ?? "", bits(1)[0] as number));
    }
    const history = test.parts.history;
    const subscription = await test.subscription(sub);
    const { items } = await history.deliveries(subscription, undefined, {
      limit: 9,
    });
    expect(items.map(({ delivery }) => [delivery.eventId, delivery.reason ?? delivery.status])).toEqual([
      [ids[3], "record_damaged"],
      [ids[2], "delivered"],
      [ids[1], "delivered"],
      [ids[0], "delivered"],
    ]);
    expect(items.at(-1)?.attempts.map(({ cycle }) => cycle)).toEqual([1]);
    expect((await history.events("key_1", {}, { limit: 9 })).items.map(({ status }) => status)).toEqual([
      "failed",
      "delivered",
      "delivered",
      "delivered",
    ]);
    expect((await history.event("key_1", ids[3] as string))?.deliveries[0]?.delivery.reason).toBe("record_damaged");
    expect((await test.parts.statsQuery.ofKey("key_1", "1h")).subscriptions[0]?.last?.reason).toBe("record_damaged");
    const faults = (await verifyStorage(storage)).faults.map(({ key }) => key.split(":")[0]);
    expect(faults.toSorted()).toEqual(["attempts", "delivery"]);
  });

  it.skipIf(missing)("a due line with a flipped bit sends nothing twice, and comes to an end", PATIENCE, async (at) => {
    const { relay, storage, again } = await begin();
    if (again === undefined) return at.skip("what it knows of due lines ends with the process");
    const before = await relay({ delivery: { holdMs: 0 }, retry: { firstDelayMs: 60_000, factor: 1 } });
    before.otherwise = replied(500);
    await before.open();
    for (let n = 0; n < 10; n++) await before.publish("deposit:paid", { data: n });
    await before.whenSent(10);
    await expect.poll(async () => (await storage.range("delivery:")).length, PATIENCE).toBe(10);
    await before.parts.dispatcher.stop(0);
    for (let n = 10; n < 20; n++) await before.publish("deposit:paid", { data: n });
    const lines = await storage.range("due:");
    expect(lines).toHaveLength(20);
    // The one that is not touched is what the others must not stop.
    const spared = lines.at(-1)?.key ?? "";
    for (const { key, value } of lines)
      if (key !== spared) await put(storage, key, flipped(value, bits(1)[0] as number));
    await before.parts.sweeper.stop();

    const { metrics, count } = watching();
    await again();
    const test = await relay({ metrics });
    await test.start();
    await settled(test);
    const sent = sentIds(test);
    expect(new Set(sent).size).toBe(sent.length);
    expect(sent).toContain(`evt_${ordinalIn(spared)}`);
    const ended = (await test.storage.range("delivery:")).map(({ key, value }) => DELIVERY.orThrow(value, key));
    expect(ended).toHaveLength(20);
    for (const { status, reason, eventId, attempts } of ended) {
      if (status === "delivered") expect(sent).toContain(eventId);
      else
        expect([reason, sent.includes(eventId), attempts.length]).toEqual([
          expect.any(String),
          false,
          expect.any(Number),
        ]);
    }
    // What a record tells, a line needs not: every one that was tried goes on.
    expect(ended.slice(0, 10).map(({ status }) => status)).toEqual(Array(10).fill("delivered"));
    expect(count("records_damaged due") + count("records_damaged event")).toBeGreaterThan(0);
    expect((await verifyStorage(test.storage)).faults).toEqual([]);
  });

  it.skipIf(missing)(
    "records of the first edition are sent, and have their checksum when they are written next",
    PATIENCE,
    async () => {
      const { relay, storage } = await begin();
      const before = await relay();
      const sub = await before.subscribe();
      const id = await before.publish();
      const other = await before.publish();
      const [event, second] = await storage.range("event:");
      const plain = (text: string): string => `{${text.slice('{"sum":"00000000",'.length)}`;
      for (const row of [event, second]) await put(storage, row?.key ?? "", plain(row?.value ?? ""));
      const test = await relay();
      await test.start();
      await settled(test);
      expect(sentIds(test).toSorted()).toEqual([id, other].toSorted());
      const key = DELIVERY.key({ subscriptionId: sub, ordinal: ordinalIn(event?.key ?? "") });
      const record = DELIVERY.orThrow((await storage.getItem(key)) ?? "", key);
      const failed = { ...record, status: "failed", reason: "exhausted" } as const;
      await put(storage, key, JSON.stringify(failed));
      await put(storage, FAILED.key({ subscriptionId: sub, ordinal: record.ordinal }), "key_1 1 exhausted 0");
      await test.parts.replay.event("key_1", id);
      await settled(test);
      const text = (await storage.getItem(key)) ?? "";
      expect(text).toBe(DELIVERY.write(DELIVERY.orThrow(text)));
      expect(text).toMatch(/^\{"sum":"[0-9a-f]{8}"/);
      expect(EVENT.orThrow((await storage.getItem(event?.key ?? "")) ?? "").id).toBe(id);
      expect((await verifyStorage(storage)).faults).toEqual([]);
    },
  );

  it.skipIf(missing)(
    "a record that the storage says it cannot read ends its delivery, and no other",
    PATIENCE,
    async () => {
      const { relay, storage } = await begin();
      const before = await relay();
      await before.subscribe();
      const ids = [await before.publish(), await before.publish()];
      const broken = (await storage.range("event:"))[0]?.key;
      let reads = 0;
      const getItem = storage.getItem.bind(storage);
      storage.getItem = (key) => {
        if (key !== broken) return getItem(key);
        reads++;
        return Promise.reject(new StorageError("broken", "a page of the file is damaged"));
      };
      const { metrics, count } = watching();
      const test = await relay({ metrics });
      await test.start();
      await settled(test);
      expect(sentIds(test)).toEqual([ids[1]]);
      expect(count("records_damaged event")).toBe(1);
      // It was asked again, for such an error may pass; and not for ever.
      expect(reads).toBeGreaterThanOrEqual(5);
      expect(reads).toBeLessThan(10);
    },
  );
});
