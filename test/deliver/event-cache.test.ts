// The cache of accepted events: what it holds is not read back, what it does not hold is.
import { describe, expect, it } from "vitest";
import { createEventCache } from "../../core/deliver/event-cache.ts";
import { deliveryBody, type RelayEvent } from "../../core/model/event.ts";
import { EVENT } from "../../core/model/schema.ts";
import { ordinals } from "../../core/model/ids.ts";

const AT = Date.UTC(2026, 0, 1);
const mint = ordinals(() => AT);

function made(subscriptionIds: readonly string[], data = "1"): RelayEvent {
  const [ordinal, keyId, type] = [mint(), "key_1", "deposit:paid"];
  const id = `evt_${ordinal}`;
  const body = deliveryBody(id, type, keyId, AT, data);
  return { id, type, keyId, ordinal, createdAt: AT, acceptedAt: AT, subscriptionIds, body };
}

/** A cache over a storage that has all of these, and the keys that were read from it. */
function opened(maxBytes: number, events: readonly RelayEvent[]) {
  const rows = new Map(events.map((event) => [EVENT.key(event), EVENT.write(event)]));
  const reads: string[] = [];
  const storage = {
    getItem: async (key: string) => {
      reads.push(key);
      return rows.get(key);
    },
  };
  return { cache: createEventCache(storage, maxBytes), reads };
}

describe("the cache of accepted events", () => {
  it("gives an event back without a reading", async () => {
    const event = made(["sub_1"]);
    const { cache, reads } = opened(100_000, [event]);
    cache.put(event);
    expect((await cache.load("key_1", event.ordinal)).event).toBe(event);
    expect(reads).toEqual([]);
  });

  it("gives nobody the event of another key, though a clock was forged and both have one ordinal", async () => {
    const event = made(["sub_1"]);
    const other = { ...event, keyId: "key_2", body: deliveryBody(event.id, event.type, "key_2", AT, "2") };
    const { cache } = opened(100_000, [event, other]);
    cache.put(event);
    expect((await cache.load("key_2", event.ordinal)).event).toEqual(other);
  });

  it("counts what it is told to forget, also what it did not hold: by that a delivery in hand learns of an erasure", () => {
    const event = made(["sub_1"]);
    const { cache } = opened(100_000, [event]);
    const seen = [cache.forgotten];
    cache.forget(event.ordinal);
    seen.push(cache.forgotten);
    cache.forget();
    expect([...seen, cache.forgotten]).toEqual([0, 1, 2]);
  });

  it("holds no event that has no delivery, so that those push none out that has", async () => {
    const wanted = made(["sub_1"]);
    const others = Array.from({ length: 1_000 }, () => made([]));
    const { cache, reads } = opened(100_000, [wanted, ...others]);
    for (const event of [wanted, ...others]) cache.put(event);
    expect((await cache.load("key_1", wanted.ordinal)).event).toBe(wanted);
    expect(reads).toEqual([]);
  });

  it("holds the newest, and most of what it may", async () => {
    const events = Array.from({ length: 1_000 }, () => made(["sub_1"]));
    const cost = Buffer.byteLength((events[0] as RelayEvent).body) + 512;
    const { cache, reads } = opened(100 * cost, events);
    for (const event of events) cache.put(event);
    for (const event of events.toReversed()) await cache.load("key_1", event.ordinal);
    const held = events.length - reads.length;
    expect(held).toBeGreaterThanOrEqual(85);
    expect(held).toBeLessThanOrEqual(100);
    expect(reads[0]).toBe(
      EVENT.key({ keyId: "key_1", ordinal: (events[events.length - held - 1] as RelayEvent).ordinal }),
    );
  });

  it("holds the newest even where it alone is too large", async () => {
    const events = [made(["sub_1"]), made(["sub_1"], `"${"x".repeat(5_000)}"`)];
    const { cache, reads } = opened(1_000, events);
    for (const event of events) cache.put(event);
    expect((await cache.load("key_1", (events[1] as RelayEvent).ordinal)).event).toBe(events[1]);
    expect(reads).toEqual([]);
  });
});
