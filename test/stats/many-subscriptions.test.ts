// The statistics of a key stay short and quick to read, however many subscriptions it has.
import { expect, it } from "vitest";
import { StatsCollector } from "../../core/stats/collect.ts";
import { createStatsQuery } from "../../core/stats/query.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { testClock } from "../support/clock.ts";
import { quietLog } from "../support/quiet.ts";
import { shelf } from "../support/shelf.ts";

const MANY = 10_000;
const ids = Array.from({ length: MANY }, (_, i) => `sub_${String(i).padStart(26, "0")}`);
const live = ids.map((id, i): Subscription => ({
  id,
  keyId: "key_1",
  url: "https://example.com/",
  events: ["*"],
  status: "active",
  createdAt: i,
  updatedAt: i,
  generation: 1,
  secrets: [],
}));

function build() {
  const storage = shelf();
  const clock = testClock();
  let [reading, most] = [0, 0];
  const range: typeof storage.range = async (...asked) => {
    most = Math.max(most, ++reading);
    return await storage.range(...asked).finally(() => void reading--);
  };
  const figures = new StatsCollector({ storage, clock, log: quietLog() });
  const stats = createStatsQuery({
    collector: figures,
    storage: { range, getMany: storage.getMany },
    subscriptionCache: { of: async () => live, get: async () => undefined },
    health: { state: () => ({ failures: 0 }) },
    clock,
  });
  return { figures, stats, storage, most: () => most };
}

it("the sums of a key with 10,000 subscriptions are whole, and each row has room for the first thousand", async () => {
  const { figures, stats, storage } = build();
  for (let i = 0; i < 2; i++) {
    figures.accepted({ keyId: "key_1", subscriptionIds: ids });
    figures.filtered("key_1", ids);
  }
  await figures.flush();
  const rows = [...storage.rows].filter(([key]) => key.startsWith("stats:"));
  for (const [, text] of rows) expect(text.length).toBeLessThan(200_000);
  const { totals, subscriptions } = await stats.ofKey("key_1", "1h");
  expect(totals).toMatchObject({ accepted: 2, filtered: 2 * MANY });
  expect(subscriptions[0]).toMatchObject({ accepted: 2, filtered: 2 });
});

it("an answer tells of the thousand subscriptions with the most to tell, and of the one that is asked for", async () => {
  const { figures, stats, most } = build();
  figures.accepted({ keyId: "key_1", subscriptionIds: [ids[5_000] as string] });
  const asked = ids.at(-1) as string;
  const { subscriptions, left } = await stats.ofKey("key_1", "1h", asked);
  expect([subscriptions.length, left]).toEqual([1_000, MANY - 1_000]);
  const told = subscriptions.map(({ subscription }) => subscription.id);
  expect(told.slice(-2)).toEqual([ids[5_000], asked]);
  expect(told).toEqual(told.toSorted());
  // Other reads from the storage have their turn.
  expect(most()).toBeLessThanOrEqual(50);
});

it("the count of what is pending at the end of a minute gives other work a turn in between", async () => {
  const storage = shelf();
  const clock = testClock();
  const figures = new StatsCollector({ storage, clock, log: quietLog() });
  figures.matched("key_1", ids.slice(0, 500));
  await clock.advance(60_000);
  let turns = 0;
  let counting = true;
  const turn = (): void => {
    turns++;
    if (counting) setImmediate(turn);
  };
  setImmediate(turn);
  await figures.flush();
  counting = false;
  // A storage may answer at once: then a thousand reads are one turn of the event loop, and hold up every delivery.
  expect(turns).toBeGreaterThanOrEqual(10);
});
