import { describe, expect, it } from "vitest";
import { StatsCollector } from "../../core/stats/collect.ts";
import { createStatsQuery } from "../../core/stats/query.ts";
import {
  decodeBucket,
  encodeBucket,
  latencyCell,
  LATENCY_CELLS,
  newBucket,
  quantileMs,
} from "../../core/stats/bucket.ts";
import { WHOLE_RELAY } from "../../core/model/schema.ts";
import type { Attempt } from "../../core/model/attempt.ts";
import type { Delivery } from "../../core/model/delivery.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";
import { shelf, type Shelf } from "../support/shelf.ts";

const MINUTE = 60_000;
const sub = (id: string): Subscription => ({
  id,
  keyId: "key_1",
  url: "https://example.com/",
  events: ["*"],
  status: "active",
  createdAt: 0,
  updatedAt: 0,
  generation: 1,
  secrets: [],
});
const delivery: Delivery = {
  keyId: "key_1",
  eventId: "evt_1",
  ordinal: "0".repeat(26),
  subscriptionId: "sub_a",
  status: "delivered",
  cycle: 0,
  generation: 1,
  attempts: [],
  updatedAt: 0,
};
const attempt = (durationMs: number): Attempt => ({ cycle: 0, number: 1, startedAt: 0, durationMs, statusCode: 200 });

function build(storage: Shelf = shelf(), clock = testClock()) {
  const figures = new StatsCollector({ storage, clock, log: quietLog() });
  const stats = createStatsQuery({
    collector: figures,
    storage,
    subscriptionCache: { of: async () => [sub("sub_a"), sub("sub_b")], get: async () => undefined },
    health: { state: () => ({ failures: 0 }) },
    clock,
  });
  const event = (...subscriptionIds: string[]) => figures.accepted({ keyId: "key_1", subscriptionIds });
  const tried = (kind: "delivered" | "exhausted" | "retry", ms: number, id = "sub_a") =>
    figures.attempted(sub(id), delivery, attempt(ms), kind === "retry" ? { kind, at: 1 } : { kind });
  return { figures, stats, event, tried, clock, storage };
}
const statsRows = ({ rows }: Shelf): string[] => [...rows.keys()].filter((key) => key.startsWith("stats:"));
const total = (column: readonly (number | null)[]): number => column.reduce<number>((sum, one) => sum + (one ?? 0), 0);

it("the relay's own figures count the keys for which there is no room, too", async () => {
  const storage = shelf();
  // Rows are looked for under each key: nothing there, so that it takes no time.
  storage.range = async () => [];
  const { figures, stats, tried } = build(storage);
  for (let n = 0; n < 20_500; n++) figures.accepted({ keyId: `other_${n}`, subscriptionIds: ["sub_x"] });
  tried("delivered", 5);
  figures.filtered("key_1", ["sub_a"]);
  await figures.flush();
  expect((await stats.ofRelay("1h")).totals).toMatchObject({
    accepted: 20_500,
    filtered: 1,
    delivered: 1,
    attempts: 1,
  });
  expect((await stats.ofKey("key_1", "1h")).totals).toMatchObject({ accepted: 0, delivered: 0 });
});

describe("latencies", () => {
  it("are within ten per cent of what was measured", () => {
    for (const ms of [1.5, 7, 48, 333, 2_000, 9_999, 29_000]) {
      const cells = Array.from<number>({ length: LATENCY_CELLS }).fill(0);
      cells[latencyCell(ms)] = 1;
      expect(Math.abs((quantileMs(cells, 0.5) as number) / ms - 1)).toBeLessThan(0.1);
    }
    expect(quantileMs(Array.from<number>({ length: LATENCY_CELLS }).fill(0), 0.5)).toBeUndefined();
    for (const ms of [0, -1, Number.NaN, 1e12]) expect(latencyCell(ms)).toBeLessThan(LATENCY_CELLS);
  });
});

describe("statistics", () => {
  it("count what happens, and show it at once, without waiting to be written", async () => {
    const { stats, event, tried } = build();
    event("sub_a", "sub_b");
    event("sub_a");
    event();
    tried("retry", 100);
    tried("delivered", 10);
    tried("exhausted", 10, "sub_b");
    const shown = await stats.ofKey("key_1", "1h");
    expect(shown.totals).toMatchObject({ accepted: 3, delivered: 1, failed: 1, attempts: 3 });
    expect(shown.series.accepted).toHaveLength(60);
    expect(shown.series.accepted.at(-1)).toBe(3);
    expect(shown.subscriptions.map(({ accepted, attempts, failed }) => [accepted, attempts, failed])).toEqual([
      [2, 2, 0],
      [1, 1, 1],
    ]);
    expect(shown.totals.p50Ms).toBeCloseTo(10, -1);
    expect(shown.totals.p99Ms).toBeCloseTo(100, -2);
    const one = await stats.ofKey("key_1", "1h", "sub_b");
    expect(one.totals).toMatchObject({ accepted: 1, delivered: 0, failed: 1 });
  });

  it("lie in the minute in which they were counted, in all three ranges", async () => {
    const { stats, figures, event, clock } = build();
    figures.start();
    event("sub_a");
    await clock.advance(3 * MINUTE);
    event("sub_a");
    event("sub_a");
    await clock.advance(MINUTE / 2);
    const hour = await stats.ofKey("key_1", "1h");
    expect(hour.series.accepted.slice(-4)).toEqual([1, 0, 0, 2]);
    expect((await stats.ofKey("key_1", "24h")).series.accepted.at(-1)).toBe(3);
    expect((await stats.ofKey("key_1", "7d")).series.accepted.at(-1)).toBe(3);
    await figures.stop();
  });

  it("outlive a restart, and are the sum of all nodes", async () => {
    const first = build();
    first.event("sub_a");
    first.tried("delivered", 5);
    await first.figures.stop();
    const second = build(first.storage, first.clock);
    second.event("sub_a");
    const third = build(first.storage, first.clock);
    third.event("sub_a");
    await third.figures.flush();
    for (const range of ["1h", "24h", "7d"] as const)
      expect((await second.stats.ofKey("key_1", range)).totals).toMatchObject({ accepted: 3, delivered: 1 });
    expect((await second.stats.ofRelay("1h")).totals.accepted).toBe(2);
    await second.figures.flush();
    expect((await second.stats.ofRelay("1h")).totals.accepted).toBe(3);
  });

  it("are kept in bounded space, however long it goes on", async () => {
    const { figures, event, clock, storage, stats } = build();
    figures.start();
    for (let hour = 0; hour < 9 * 24; hour++) {
      for (let i = 0; i < 4; i++) {
        event("sub_a");
        await clock.advance(15 * MINUTE);
      }
    }
    await figures.stop();
    // Two series (the key, the whole relay), and what has become old since the last hour began.
    expect(statsRows(storage).length).toBeLessThanOrEqual(2 * (61 + 145 + 169 + 12));
    // The hour that begins just now is one of the 168.
    expect((await stats.ofKey("key_1", "7d")).totals.accepted).toBe(167 * 4);
  });

  it("of keys that went quiet are thrown away too", async () => {
    const { figures, clock, storage } = build();
    figures.start();
    figures.accepted({ keyId: "key_old", subscriptionIds: [] });
    await clock.advance(9 * 24 * 60 * MINUTE);
    await figures.stop();
    expect(statsRows(storage).filter((key) => key.startsWith("stats:key_old:"))).toEqual([]);
  });

  it("that cannot be written are written the next time", async () => {
    const { figures, event, storage, stats, clock } = build();
    storage.before = () => {
      throw new StorageError("unavailable", "gone for now");
    };
    event("sub_a");
    await figures.flush();
    await clock.advance(MINUTE);
    event("sub_a");
    await figures.flush();
    expect(statsRows(storage)).toEqual([]);
    storage.before = () => undefined;
    await figures.flush();
    expect((await stats.ofKey("key_1", "1h")).totals.accepted).toBe(2);
    const after = build(storage, clock);
    expect((await after.stats.ofKey("key_1", "1h")).totals.accepted).toBe(2);
  });

  it("count what filters left out, of each subscription, of the key and of the relay, over a restart", async () => {
    const first = build();
    first.figures.filtered("key_1", ["sub_a", "sub_b"]);
    first.figures.filtered("key_1", ["sub_a"]);
    const told = async ({ stats }: ReturnType<typeof build>) => {
      const { totals, series, subscriptions } = await stats.ofKey("key_1", "24h");
      const { totals: own } = await stats.ofKey("key_1", "24h", "sub_b");
      const sums = await stats.sumsOf("key_1", "24h");
      const each = subscriptions.map(({ filtered }) => filtered);
      return [totals.filtered, total(series.filtered), ...each, own.filtered, sums.filtered];
    };
    expect(await told(first)).toEqual([3, 3, 2, 1, 1, 3]);
    await first.figures.stop();
    const second = build(first.storage, first.clock);
    expect(await told(second)).toEqual([3, 3, 2, 1, 1, 3]);
    expect((await second.stats.ofRelay("1h")).totals).toMatchObject({ filtered: 3, accepted: 0 });
  });

  it("count what failed without an attempt, and in the backlog what waits for its turn", async () => {
    const storage = shelf();
    const clock = testClock();
    const waiting = async (key?: string, id?: string): Promise<number> =>
      key === undefined ? 5 : id === "sub_a" ? 3 : 0;
    const figures = new StatsCollector({ storage, clock, log: quietLog(), waiting });
    figures.start();
    figures.accepted({ keyId: "key_1", subscriptionIds: ["sub_a", "sub_b"] });
    figures.failed("key_1", ["sub_b"]);
    storage.rows.set("due:sub_a:0", "");
    storage.depth = { waiting: 7, leased: 0 };
    await clock.advance(2 * MINUTE);
    const [bucket] = (await figures.read("key_1", "1h", 0)).values();
    expect(bucket?.subs.get("sub_b")?.slice(0, 4)).toEqual([1, 0, 1, 0]);
    expect(bucket?.backlog.get("sub_a")).toBe(4);
    expect(await figures.pending("key_1", "sub_a")).toBe(4);
    const [relay] = (await figures.read(WHOLE_RELAY, "1h", 0)).values();
    expect([...(relay?.backlog.values() ?? [])]).toEqual([12]);
    await figures.stop();
  });

  it("tell how many deliveries were pending as each minute ended", async () => {
    const { figures, event, storage, stats, clock } = build();
    figures.start();
    event("sub_a");
    for (let i = 0; i < 7; i++) storage.rows.set(`due:sub_a:${i}`, "");
    storage.depth = { waiting: 7, leased: 0 };
    await clock.advance(2 * MINUTE);
    for (let i = 0; i < 7; i++) storage.rows.delete(`due:sub_a:${i}`);
    await clock.advance(2 * MINUTE);
    const { series, subscriptions } = await stats.ofKey("key_1", "1h");
    expect(series.backlog.slice(-5)).toEqual([7, 7, 0, 0, 0]);
    expect(subscriptions[0]?.backlog).toBe(0);
    await figures.stop();
  });

  it("count the four codes of refusals, for the relay and for the key of who owns it", async () => {
    const { figures, stats } = build();
    figures.refused("BURST_EXCEEDED", "key_1");
    figures.refused("ABUSE_SUSPEND", undefined);
    expect((await stats.ofKey("key_1", "1h")).totals.refused).toMatchObject({ BURST_EXCEEDED: 1, ABUSE_SUSPEND: 0 });
    expect((await stats.ofRelay("1h")).totals.refused).toMatchObject({ BURST_EXCEEDED: 1, ABUSE_SUSPEND: 1 });
    expect(total((await stats.ofKey("key_1", "1h")).series.refused.BURST_EXCEEDED)).toBe(1);
  });

  it("cost no more than a few times what it costs to write the event as JSON", () => {
    const { figures, tried }: { figures: StatsCollector; tried: (kind: "delivered", ms: number) => void } = build();
    const event = { keyId: "key_1", subscriptionIds: ["sub_a"] };
    const timed = (work: () => unknown): number => {
      const began = process.hrtime.bigint();
      for (let i = 0; i < 50_000; i++) work();
      return Number(process.hrtime.bigint() - began);
    };
    tried("delivered", 1);
    // Measured in turn, so that a machine that is busy for a while slows both.
    const ratios = Array.from(
      { length: 9 },
      () => timed(() => figures.accepted(event)) / timed(() => JSON.stringify(event)),
    );
    expect(Math.min(...ratios)).toBeLessThan(3);
  });
});

describe("a row of statistics", () => {
  it("reads back as it was written, and one that is broken counts nothing", () => {
    const tally = newBucket();
    tally.accepted = 3;
    tally.refused[2] = 4;
    tally.backlog.set("sub_a", 5);
    tally.filtered.set("sub_b", 6);
    tally.subs.set("sub_a", [1, 2, 3, 4, 0, 6, 17, 2]);
    expect(decodeBucket(encodeBucket(tally))).toEqual(tally);
    expect(decodeBucket("{")).toEqual(newBucket());
  });
});
