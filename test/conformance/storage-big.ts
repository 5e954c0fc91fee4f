/** Laws of size: the largest commit that intake can make is taken, alone and beside its like, wholly or not at all. */
import { expect } from "vitest";
import { DUE, EVENT } from "../../core/model/schema.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import type { Bench } from "./storage.ts";

/** As many events and bytes as one request may have, and as many subscriptions as a key may have. */
const EVENTS = 1_000;
const BYTES = 8 * 1024 * 1024;
const SUBSCRIPTIONS = 50;

interface Batch {
  readonly keyId: string;
  readonly subs: readonly string[];
  readonly changes: readonly Change[];
}

/** Returns what intake writes for a batch of a publisher: an event row, its id, and a due line for each subscription. */
function batch(n: number, subscriptions: number, dueAt: number): Batch {
  const keyId = `key_${n}`;
  const subs = Array.from({ length: subscriptions }, (_, i) => `sub_${n}x${String(i).padStart(20, "0")}`);
  const value = `{"data":"${"x".repeat(Math.floor(BYTES / EVENTS))}"}`;
  const changes: Change[] = [];
  for (let i = 0; i < EVENTS; i++) {
    const ordinal = `01k${String(i).padStart(23, "0")}`;
    changes.push({ op: "put", key: `eventid:${keyId}:own-${i}`, value: ordinal, if: null });
    changes.push({ op: "put", key: EVENT.key({ keyId, ordinal }), value: `${i}${value}`, if: null });
    for (const subscriptionId of subs) {
      const due = { subscriptionId, keyId, ordinal, dueAt, generation: 0, cycle: 0, attempts: 0 };
      changes.push({ op: "put", key: DUE.key(due), value: DUE.write(due) });
    }
  }
  return { keyId, subs, changes };
}

/** How many rows begin with the prefix; each page as large as callers ask for. */
async function count(storage: Storage, prefix: string): Promise<number> {
  let all = 0;
  for (let after: string | undefined; ;) {
    const page = await storage.range(prefix, { after, limit: 500 });
    all += page.length;
    if (page.length < 500) return all;
    after = page.at(-1)?.key;
  }
}

async function rowsOf(storage: Storage, { keyId, subs }: Batch): Promise<number> {
  let all = (await count(storage, `event:${keyId}:`)) + (await count(storage, `eventid:${keyId}:`));
  for (const sub of subs) all += await count(storage, `due:${sub}:`);
  return all;
}

export function bigLaws({ open, law, harness }: Bench): void {
  const now = (): number => harness.clock.now();
  const publishers = harness.publishers ?? 16;

  law("takes the largest commit that intake can make, and gives all of it back", async () => {
    const storage = await open();
    const one = batch(0, harness.subscriptions ?? SUBSCRIPTIONS, now());
    await storage.commit(one.changes);
    expect(await rowsOf(storage, one)).toBe(one.changes.length);
    const events = one.changes.filter((change) => change.key.startsWith("event:"));
    const values = await storage.getMany(events.map(({ key }) => key));
    expect(values.every((value, i) => value === (events[i] as { value: string }).value)).toBe(true);
    await expect(storage.commit([...one.changes])).rejects.toMatchObject({ name: "ConflictError" });
  });

  law("takes a delete of as many rows, and puts and deletes in the order given", async () => {
    const storage = await open();
    const rows = Array.from({ length: 20_000 }, (_, i): Change => ({
      op: "put",
      key: `meta:${10_000 + i}`,
      value: "1",
    }));
    await storage.commit(rows);
    await storage.commit([
      ...rows.map(({ key }): Change => ({ op: "delete", key })),
      ...rows.slice(0, 10).map(({ key }): Change => ({ op: "put", key, value: "2" })),
      { op: "delete", key: "meta:10009" },
    ]);
    expect((await storage.range("meta:")).map(({ key, value }) => `${key}=${value}`)).toEqual(
      Array.from({ length: 9 }, (_, i) => `meta:1000${i}=2`),
    );
  });

  law(
    `takes those of ${publishers} publishers at once, and small ones beside them, each wholly or not at all`,
    async () => {
      const storage = await open();
      const batches = Array.from({ length: publishers }, (_, n) =>
        batch(n, harness.publisherSubscriptions ?? 3, now()),
      );
      const small = Array.from({ length: 100 }, (_, i): Change => ({ op: "put", key: `meta:${i}`, value: "x" }));
      const ends = await Promise.allSettled([
        ...batches.map(({ changes }) => storage.commit(changes)),
        ...small.map((change) => storage.commit([change])),
      ]);
      expect(ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []))).toEqual([]);
      for (const one of batches) expect(await rowsOf(storage, one)).toBe(one.changes.length);
      expect(await count(storage, "meta:")).toBe(small.length);
    },
  );

  law(
    "lets no commit down that shares its time with a large one that is refused",
    async () => {
      const storage = await open();
      const one = batch(0, 5, now());
      await storage.commit([{ op: "put", key: `eventid:${one.keyId}:own-999`, value: "taken" }]);
      const small = Array.from({ length: 50 }, (_, i): Change => ({ op: "put", key: `meta:${i}`, value: "x" }));
      const [refused, ...others] = await Promise.allSettled([
        storage.commit(one.changes),
        ...small.map((change) => storage.commit([change])),
      ]);
      expect(refused).toMatchObject({ status: "rejected", reason: { name: "ConflictError" } });
      expect(others.every(({ status }) => status === "fulfilled")).toBe(true);
      expect(await rowsOf(storage, one)).toBe(1);
    },
    "conditions",
    "atomic",
  );

  law("reads pages of the largest events, forwards, backwards and by name", async () => {
    const storage = await open();
    const value = "v".repeat(256 * 1024);
    const keys = Array.from({ length: 200 }, (_, i) => `event:key_1:${1_000 + i}`);
    for (let i = 0; i < keys.length; i += 20)
      await storage.commit(keys.slice(i, i + 20).map((key): Change => ({ op: "put", key, value: key + value })));
    const page = await storage.range("event:key_1:", { limit: 500 });
    expect(page.map(({ key }) => key)).toEqual(keys);
    expect(page.every(({ key, value: found }) => found === key + value)).toBe(true);
    const back = await storage.range("event:key_1:", { limit: 150, reverse: true });
    expect(back.map(({ key }) => key)).toEqual(keys.toReversed().slice(0, 150));
    const asked = ["event:key_1:none", ...keys.toReversed()];
    const found = await storage.getMany(asked);
    expect(found.map((text) => text?.slice(0, 16))).toEqual([
      undefined,
      ...keys.toReversed().map((key) => key.slice(0, 16)),
    ]);
  });
}
