/** Between its pages retention leaves the storage to deliveries, for a while that a stop ends. */
import { expect, it } from "vitest";
import { EVENT } from "../../core/model/schema.ts";
import { testPath } from "../support/path.ts";
import { until } from "../support/until.ts";

const DAY_MS = 86_400_000;
const EVENTS = 120;

it("a run ends at once when the relay stops, also between two pages of a slow storage", async () => {
  await using test = await testPath();
  for (let n = 0; n < EVENTS; n++) await test.publish();
  await test.clock.advance(DAY_MS + 1_800_000);
  const { commit } = test.storage;
  test.storage.commit = async (changes) => {
    if (changes.some(({ op, key }) => op === "delete" && key.startsWith("event:"))) await test.clock.advance(600_000);
    await commit(changes);
  };
  const left = async (): Promise<number> =>
    (await test.storage.range(EVENT.under({ keyId: "key_1" }), { limit: EVENTS })).length;
  const stop = new AbortController();
  const running = test.parts.retention.run({ deliveredAfterMs: DAY_MS }, stop.signal);
  await until(async () => (await left()) < EVENTS);
  stop.abort();
  expect(await running).toBe(EVENTS - (await left()));
});
