// What is remembered for a day and then dropped: whoever uses a key again in that very moment keeps it.
import { describe, expect, it } from "vitest";
import type { AcceptRequest } from "../../core/ports/source.ts";
import { testPath, type TestPath } from "../support/path.ts";

const DAY_MS = 86_400_000;

const request = (n: number): AcceptRequest => ({
  publications: [{ text: JSON.stringify({ type: "deposit:paid", keyId: "key_1", data: n }), path: "" }],
  source: "test",
  idempotency: { scope: "s", key: "k", digest: `digest-${n}` },
});
const accept = (test: TestPath, n: number) => test.parts.publisher.accept(request(n));
const rows = async (test: TestPath) =>
  (await Promise.all(["idempotency:", "expiry:"].map((prefix) => test.storage.range(prefix)))).map(
    (page) => page.length,
  );

it("the id of an erased event that is used again after a day keeps its row", async () => {
  await using test = await testPath();
  await test.publish("deposit:paid", { id: "own" });
  await test.parts.eventErasure.erase("key_1", "own", []);
  await test.clock.advance(DAY_MS);
  await test.publish("deposit:paid", { id: "own" });
  const row = await test.storage.range("eventid:");
  await test.start();
  await test.clock.advance(31_000);
  expect(await test.storage.range("eventid:")).toEqual(row);
  expect(row).toHaveLength(1);
});

describe("an Idempotency-Key", () => {
  it("is remembered for a day to the millisecond, then dropped with its row", async () => {
    await using test = await testPath();
    await test.start();
    const [first] = await accept(test, 1);
    await test.clock.advance(DAY_MS - 1);
    expect((await accept(test, 1))[0]).toEqual({ ...first, duplicate: true });
    await expect(accept(test, 2)).rejects.toMatchObject({ code: "IDEMPOTENCY_MISMATCH" });
    expect(await rows(test)).toEqual([1, 1]);
    await test.clock.advance(31_000);
    expect(await rows(test)).toEqual([0, 0]);
    expect((await accept(test, 2))[0]?.duplicate).toBe(false);
  });

  it("that is used again while the sweep drops it is remembered for another day, and keeps no other one", async () => {
    await using test = await testPath();
    await accept(test, 1);
    const other = "idempotency:s:other";
    await test.storage.commit([
      { op: "put", key: other, value: "{}" },
      { op: "put", key: `expiry:${test.clock.now() + DAY_MS}:${other}`, value: "" },
    ]);
    const { range } = test.storage;
    await test.start();
    let used = false;
    test.storage.range = async (prefix, options) => {
      const page = await range(prefix, options);
      if (prefix !== "expiry:" || used || !(test.clock.now() >= Number(page[0]?.key.slice(7, 20)))) return page;
      used = true;
      // The sweep has seen the old row; the publisher comes before it drops what the row names.
      await accept(test, 2);
      return page;
    };
    await test.clock.advance(DAY_MS + 20_000);
    expect(used).toBe(true);
    expect(await test.storage.getItem(other)).toBeUndefined();
    expect(await rows(test)).toEqual([1, 1]);
    expect((await accept(test, 2))[0]?.duplicate).toBe(true);
  });

  it("is as long remembered when the clock is a year behind for hours, or an hour ahead", async () => {
    await using test = await testPath();
    await test.start();
    await test.clock.step(3_600_000);
    const [first] = await accept(test, 1);
    await test.clock.step(-3_600_000);
    await test.clock.step(-365 * DAY_MS);
    await test.clock.advance(10_000_000);
    await test.clock.step(365 * DAY_MS);
    await test.clock.advance(DAY_MS - 10_000_001);
    expect((await accept(test, 1))[0]).toEqual({ ...first, duplicate: true });
  });

  it("is dropped with thousands of others, a page at a time", async () => {
    await using test = await testPath();
    const at = test.clock.now();
    await test.storage.commit(
      Array.from({ length: 1_200 }, (_, i) => [
        { op: "put", key: `idempotency:s:${i}`, value: "{}" } as const,
        { op: "put", key: `expiry:${at + 1_000}:idempotency:s:${i}`, value: "" } as const,
      ]).flat(),
    );
    await test.start();
    await test.clock.advance(31_000);
    expect(await test.storage.range("idempotency:", { limit: 2_000 })).toEqual([]);
    expect(await test.storage.range("expiry:", { limit: 2_000 })).toEqual([]);
  });
});
