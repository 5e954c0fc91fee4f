import { describe, expect, it } from "vitest";
import { CHECKS } from "../../core/maintenance/verify-records.ts";
import { verifyStorage } from "../../core/maintenance/verify-storage.ts";
import { DELIVERY, DUE, FAILED, KINDS, SEQUENCE } from "../../core/model/schema.ts";
import type { Change } from "../../core/ports/storage.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

/** A relay with every kind of record: delivered, failed, replayed, pending, never tried, ids of the publisher's own. */
async function lived(): Promise<TestPath> {
  const test = await testPath({ retry: { firstDelayMs: 10, factor: 1 } });
  await test.subscribe();
  await test.start();
  await test.publish();
  await test.whenSent(1);
  await test.clock.advance(0);
  test.otherwise = replied(500);
  const failed = await test.publish("deposit:paid", { id: "own:1" });
  await test.clock.advance(1_000);
  await test.whenSent(6);
  await test.parts.replay.event("key_1", failed);
  await test.clock.advance(20);
  await test.parts.dispatcher.stop(0);
  await test.publish("deposit:paid", { id: "own:2" });
  return test;
}

async function ruled(change: (test: TestPath) => Promise<readonly Change[]>): Promise<readonly string[]> {
  await using test = await lived();
  await test.storage.commit(await change(test));
  return (await verifyStorage(test.storage)).faults.map(({ key, message }) => `${key.split(":")[0]}: ${message}`);
}

const first = async (test: TestPath, prefix: string) => {
  const [entry] = await test.storage.range(prefix, { limit: 1 });
  if (entry === undefined) throw new Error(`nothing stands on ${prefix}`);
  return entry;
};

describe("the check of stored data", () => {
  it("finds nothing wrong with what a relay has written, and counts it", async () => {
    await using test = await lived();
    const events: string[] = [];
    const found = await verifyStorage(test.storage, { each: (event) => void events.push(event.id) });
    expect(found.faults).toEqual([]);
    expect(found.records).toMatchObject({ event: 3, eventid: 2, delivery: 2, due: 2, attempts: 1, subscription: 1 });
    expect(found.deliveries).toEqual({ pending: 2, delivered: 1, failed: 0, cancelled: 0 });
    expect(events).toHaveLength(3);
  });

  it("knows every kind of record that the relay writes", async () => {
    const faults = await ruled(async () =>
      KINDS.map(({ prefix }) => ({ op: "put", key: `${prefix}:x`, value: "torn" })),
    );
    expect(KINDS.length).toBeGreaterThan(30);
    expect(faults.filter((fault) => /does not use/.test(fault))).toEqual([]);
    expect(Object.keys(CHECKS).filter((prefix) => !KINDS.some((kind) => kind.prefix === prefix))).toEqual([]);
  });

  it.each(["event", "eventid", "due", "delivery", "attempts", "count", "audit"])(
    "finds a record of the shelf %s that was overwritten",
    async (shelf) => {
      const faults = await ruled(async (test) => {
        const { key } = await first(test, `${shelf}:`);
        return [{ op: "put", key, value: "torn" }];
      });
      expect(faults.some((fault) => fault.startsWith(`${shelf}: `))).toBe(true);
    },
  );

  it.each([
    ["due", "event: has neither", "delivery: is pending, but is not in the due index"],
    ["event", "eventid: names an event that does not exist", "due: belongs to an event that does not exist"],
    ["eventid", "event: is not found by its id", ""],
    ["delivery", "due: was tried before, but", "attempts: belongs to a delivery that does not exist"],
  ])("finds what is missing: %s", async (shelf, ...told) => {
    const faults = await ruled(async (test) => {
      const page = await test.storage.range(`${shelf}:`, { limit: 100 });
      return page.map(({ key }) => ({ op: "delete", key }) as const);
    });
    for (const text of told) expect(faults.some((fault) => fault.startsWith(text))).toBe(true);
  });

  it("finds a delivery that the index of failed ones does not know, and one that it should not", async () => {
    const faults = await ruled(async (test) => {
      const [other, pending] = await test.storage.range("delivery:");
      const delivered = DELIVERY.orThrow(other?.value ?? "");
      return [
        { op: "put", key: FAILED.key(DELIVERY.id(pending?.key ?? "")), value: "key_1 1 exhausted 0" },
        {
          op: "put",
          key: other?.key ?? "",
          value: DELIVERY.write({ ...delivered, status: "failed", reason: "exhausted" }),
        },
      ];
    });
    expect(faults.join("\n")).toMatch(/delivery: has failed, but is not in the index/);
    expect(faults.join("\n")).toMatch(/failed: names a delivery that is (pending|delivered)/);
  });

  it("counts no fault that is gone at a second look, because a relay is at work", async () => {
    await using test = await lived();
    const id = { subscriptionId: "sub_gone", ordinal: "01h00000000000000000000000" };
    const row = FAILED.put(id, { keyId: "key_1", failedAt: 1, cycle: 0, reason: "exhausted" } as never);
    await test.storage.commit([row]);
    const { range } = test.storage;
    const during = {
      ...test.storage,
      range: async (...given: Parameters<typeof range>) => {
        const page = await range(...given);
        await test.storage.commit([{ op: "delete", key: row.key }]);
        return page;
      },
    };
    expect((await verifyStorage(during)).faults).toEqual([]);
  });

  it("takes a damaged due line for the one whose turn it may be", async () => {
    await using test = await testPath();
    const [keyId, subscriptionId] = ["key_1", "sub_1"];
    const turn = SEQUENCE.put({ keyId, subscriptionId, sequence: 0 }, { busy: true, entered: 1 });
    const due = DUE.key({ subscriptionId, dueAt: 1, ordinal: "01h00000000000000000000000" });
    await test.storage.commit([turn, { op: "put", key: due, value: "?" }]);
    const messages = (await verifyStorage(test.storage)).faults.map(({ key }) => key.split(":")[0]);
    expect(messages).toEqual(["due"]);
  });

  it("finds a key that the relay does not use", async () => {
    const faults = await ruled(async () => [{ op: "put", key: "stray:1", value: "" }]);
    expect(faults).toEqual(["stray: has a key that the relay does not use"]);
  });
});
