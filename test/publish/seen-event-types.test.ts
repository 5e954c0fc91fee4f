// The rows that name the event types of a key stay bounded, whoever invents names.
import { expect, it } from "vitest";
import { createSeenEventTypes } from "../../core/publish/seen-event-types.ts";
import { shelf } from "../support/shelf.ts";

const MOST = 1_000;

it("names at most a thousand types of each key, also after a restart and beside many other such keys", async () => {
  const store = shelf();
  let names = createSeenEventTypes(store);
  async function publish(keyId: string, first: number, count: number): Promise<void> {
    const events = Array.from({ length: count }, (_, i) => ({ keyId, type: `made:up${first + i}` }));
    const rows = await names.missing(events, 1);
    await store.commit(rows);
    names.written(events);
  }
  const keys = Array.from({ length: 60 }, (_, i) => `key_${i}`);
  for (let round = 0; round < 3; round++) {
    for (const keyId of keys)
      for (let first = 0; first < MOST; first += 500) await publish(keyId, round * MOST + first, 500);
    // The last round comes after a restart.
    if (round === 1) names = createSeenEventTypes(store);
  }
  const rowsOf = (keyId: string): number =>
    [...store.rows.keys()].filter((key) => key.startsWith(`keytype:${keyId}:`)).length;
  expect(Math.max(...keys.map(rowsOf))).toBe(MOST);
});

it("knows a stored type without reading it again, and names a new one", async () => {
  const store = shelf();
  const event = { keyId: "key_1", type: "deposit:paid" };
  await store.commit(await createSeenEventTypes(store).missing([event], 1));
  const names = createSeenEventTypes(store);
  expect(names.known(event)).toBe(false);
  expect(await names.missing([event], 2)).toEqual([]);
  expect(names.known(event)).toBe(true);
  const other = { keyId: "key_1", type: "deposit:failed" };
  expect((await names.missing([other], 2)).map(({ key }) => key)).toEqual([
    "type:deposit~failed",
    "keytype:key_1:deposit~failed",
  ]);
});
