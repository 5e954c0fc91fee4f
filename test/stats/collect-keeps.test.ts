// Statistics are kept when the clock is set back, one key is very large, or the relay never runs for a day.
import { expect, it } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import { StatsCollector } from "../../core/stats/collect.ts";
import { createStatsQuery } from "../../core/stats/query.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";
import { shelf } from "../support/shelf.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

function room() {
  const [storage, clock] = [shelf(), testClock()];
  return { storage, clock, collector: () => new StatsCollector({ storage, clock, log: quietLog() }) };
}

async function count(stats: StatsCollector, times: number, keyId = "key_1"): Promise<void> {
  for (let i = 0; i < times; i++) stats.accepted({ keyId, subscriptionIds: [] });
  await stats.flush();
}

it("loses no counts of an hour that a clock set back brings again", async () => {
  const { clock, collector } = room();
  const stats = collector();
  await count(stats, 1_000);
  for (const step of [-HOUR_MS, HOUR_MS]) {
    await clock.step(step);
    await stats.flush();
    await count(stats, 1);
  }
  for (const reader of [stats, collector()]) {
    const hours = await reader.read("key_1", "1h", 0);
    expect([...hours.values()].map(({ accepted }) => accepted).toSorted((a, b) => a - b)).toEqual([1, 1_001]);
  }
});

it("counts the backlog of small keys also beside one key with very many subscriptions", async () => {
  const { storage, clock, collector } = room();
  const stats = collector();
  const many = Array.from({ length: 1_001 }, (_, i) => `sub_${i}`);
  storage.rows.set(`${DUE.under({ subscriptionId: "sub_small" })}0000000000001:x`, "key_small 1 0 0");
  for (let minute = 0; minute < 3; minute++) {
    stats.accepted({ keyId: "key_wide", subscriptionIds: many });
    stats.accepted({ keyId: "key_small", subscriptionIds: ["sub_small"] });
    await stats.flush();
    await clock.advance(MINUTE_MS);
    await stats.flush();
  }
  const buckets = await stats.read("key_small", "1m", 0);
  expect([...buckets.values()].flatMap(({ backlog }) => [...backlog.values()])).toContain(1);
});

it("keeps no old rows of idle keys where the relay never runs for a whole day", async () => {
  const { storage, clock, collector } = room();
  await count(collector(), 1, "key_idle");
  await clock.advance(9 * DAY_MS);
  await count(collector(), 1, "key_busy");
  expect([...storage.rows.keys()].filter((key) => key.includes("key_idle"))).toEqual([]);
});

it("loses no counts of the last week while the clock is set forwards by a month", async () => {
  const { storage, clock, collector } = room();
  const stats = collector();
  await count(stats, 1_000);
  await clock.advance(DAY_MS);
  await clock.step(30 * DAY_MS);
  await stats.flush();
  await count(stats, 1);
  await clock.step(-30 * DAY_MS);
  await count(stats, 2);
  const subscriptionCache = { of: async () => [], get: async () => undefined };
  const health = { state: () => ({ failures: 0 }) };
  const query = createStatsQuery({ collector: stats, storage, clock, subscriptionCache, health });
  // The counts of the month to come are in no range of today.
  const sums = await query.sumsOf("key_1", "7d");
  const { totals } = await query.ofKey("key_1", "7d");
  expect([sums.accepted, totals.accepted]).toEqual([1_002, 1_002]);
});
