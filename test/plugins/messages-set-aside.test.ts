// Messages that hold no valid event, as they are kept in the relay's own storage.
import { expect, it } from "vitest";
import type { ScopedStorage } from "../../core/ports/plugin.ts";
import { DeadLetters } from "../../plugins/source/messages/dead-letters.ts";
import type { RawMessage } from "../../plugins/source/messages/message.ts";
import { context } from "../support/context.ts";
import { testClock } from "../support/clock.ts";
import { shelf } from "../support/shelf.ts";

/** Keeps messages as of the times given, ms. */
function keeper(storage: ScopedStorage) {
  let now = 0;
  const letters = new DeadLetters(context({ storage, clock: { ...testClock(), now: () => now } }), "kafka");
  return async (message: RawMessage, at: number): Promise<void> => {
    now = at;
    await letters.keep(message, poison);
  };
}

const bad = { payload: "no JSON", subject: "orders", place: "orders-7" };
const poison = { code: "INVALID_JSON", detail: "" };

it("a message is kept whole when it is small, and within a bound when its key or headers are large", async () => {
  const store = shelf();
  const keep = keeper(store);
  const note = "é".repeat(50_000);
  await keep({ ...bad, key: "k", headers: { a: "1" } }, 1);
  await keep({ ...bad, key: "k", headers: { note, more: note, last: "1" } }, 2);
  await keep({ ...bad, key: note, headers: { a: "1" } }, 3);
  const rows = [...store.rows.values()];
  const [small, headers, key] = rows.map((text) => JSON.parse(text) as Record<string, unknown>);
  expect(small).toMatchObject({ key: "k", headers: { a: "1" } });
  expect(small).not.toHaveProperty("headersLeftOut");
  const cut = expect.stringMatching(/^é+… \(cut, 100000 bytes\)$/) as string;
  expect(headers).toMatchObject({ key: "k", headers: { note: cut }, headersLeftOut: 2 });
  expect(key).toMatchObject({ key: cut, headers: {}, headersLeftOut: 1 });
  for (const row of rows) expect(Buffer.byteLength(row)).toBeLessThan(70_000);
});

it("the newest 1,000 are kept, and few are read at once", async () => {
  const store = shelf();
  for (let i = 0; i < 1_030; i++) store.rows.set(`set-aside/kafka/${String(i).padStart(15, "0")}-x`, "{}");
  let most = 0;
  const range: typeof store.range = async (...given) => {
    const page = await store.range(...given);
    most = Math.max(most, page.length);
    return page;
  };
  const keep = keeper({ ...store, range });
  for (let i = 0; i < 4; i++) await keep({ ...bad, place: `orders-${i}` }, 2_000 + i);
  expect(store.rows.size).toBeGreaterThan(900);
  expect(store.rows.size).toBeLessThanOrEqual(1_000);
  expect([...store.rows.keys()].at(-1)).toContain("2003-orders-3");
  expect(most).toBeLessThanOrEqual(20);
});

it("the newest 1,000 are kept also where many are set aside at once", async () => {
  const store = shelf();
  for (let i = 0; i < 1_000; i++) store.rows.set(`set-aside/kafka/${String(i).padStart(15, "0")}-x`, "{}");
  const keep = keeper(store);
  for (let i = 0; i < 100; i += 10)
    await Promise.all(Array.from({ length: 10 }, (_, j) => keep({ ...bad, place: `orders-${i + j}` }, 2_000 + i + j)));
  expect(store.rows.size).toBeLessThanOrEqual(1_000);
  expect([...store.rows.keys()].filter((key) => key.includes("orders"))).toHaveLength(100);
});

it("one that cannot be kept stops none of those behind it", async () => {
  const store = shelf();
  const keep = keeper(store);
  let commits = 0;
  store.before = () => {
    if (++commits === 1) throw new Error("no storage");
  };
  const both = [1, 2].map((at) => keep({ ...bad, place: `orders-${at}` }, at));
  await expect(both[0]).rejects.toThrow("no storage");
  await both[1];
  expect(store.rows.size).toBe(1);
});
