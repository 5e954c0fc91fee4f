/** The wall clock is wrong for a while (NTP, no battery), and the nightly retention runs meanwhile. */
import { expect, it } from "vitest";
import { replied, testPath, type TestPath } from "../support/path.ts";

const DAY = 86_400_000;
const runs = (test: TestPath, days: number): Promise<number> =>
  test.parts.retention.run({ deliveredAfterMs: days * DAY }, new AbortController().signal);

it("a clock that is set forwards while the relay runs removes no event of an hour ago", async () => {
  await using test = await testPath();
  await test.subscribe();
  await test.start();
  await test.publish("deposit:paid", { id: "order:1" });
  await test.whenSent(1);
  await test.clock.advance(3_600_000);
  await test.clock.step(2 * DAY);
  const removed = await runs(test, 1);
  await test.clock.step(-2 * DAY);
  // The publisher repeats itself, as it may within a day.
  await test.publish("deposit:paid", { id: "order:1" });
  await test.clock.advance(60_000);
  expect({ removed, sent: test.sent.length }).toEqual({ removed: 0, sent: 1 });
});

it("a clock that was behind at the start, and was set right, is believed a day later", async () => {
  await using test = await testPath();
  const run = () => runs(test, 1);
  await test.subscribe();
  await test.start();
  await test.publish("deposit:paid", { id: "order:1" });
  await test.whenSent(1);
  await test.clock.step(400 * DAY);
  expect(await run()).toBe(0);
  await test.clock.advance(DAY);
  await run();
  await test.clock.advance(60_000);
  expect(await test.parts.history.event("key_1", "order:1")).toBeUndefined();
});

it("an event that a run meets while the clock is set back is looked at again when its time comes", async () => {
  await using test = await testPath({ delivery: { holdMs: 0 } });
  const run = () => runs(test, 3);
  test.answers = [replied(503, { retryAfter: "3600" })];
  await test.subscribe();
  await test.start();
  await test.publish();
  await test.clock.advance(3_700_000);
  expect(test.sent).toHaveLength(2);
  // Accepted three days ago, and delivered an hour later: it goes within the hour.
  await test.clock.advance(3 * DAY - 3_000_000);
  expect(await run()).toBe(0);
  await test.clock.advance(3_600_000);
  const { getMany } = test.storage;
  test.storage.getMany = async (keys) => {
    if (keys.some((key) => key.startsWith("delivery:"))) {
      test.storage.getMany = getMany;
      await test.clock.step(-3_600_000);
    }
    return await getMany(keys);
  };
  expect(await run()).toBe(0);
  await test.clock.advance(2 * 3_600_000);
  expect(await run()).toBe(1);
});

// A node without a battery accepts events by a clock that is far behind, which is set right later.
it("what a clock that was far behind has accepted is removed like all the rest", async () => {
  await using test = await testPath();
  const run = () => runs(test, 2);
  await test.subscribe();
  await test.start();
  await test.publish("deposit:paid", { id: "order:1" });
  await test.whenSent(1);
  await test.clock.advance(4 * DAY);
  expect(await run()).toBe(1);
  await test.clock.step(-400 * DAY);
  await test.publish("deposit:paid", { id: "order:2" });
  await test.whenSent(2);
  await test.clock.step(400 * DAY);
  // A month later, and the day that a clock which was set forwards is not believed.
  await test.clock.step(40 * DAY);
  await run();
  await test.clock.advance(DAY);
  await run();
  expect(await test.parts.history.event("key_1", "order:2")).toBeUndefined();
});

it("and also when the clock was a year ahead at the run before", async () => {
  await using test = await testPath();
  const run = () => runs(test, 2);
  await test.publish();
  await test.clock.advance(4 * DAY);
  expect(await run()).toBe(1);
  const [whole] = (await test.storage.range("retention:")).filter(({ value }) => /^\d{13}$/.test(value));
  await test.storage.commit([{ op: "put", key: whole?.key ?? "", value: String(test.clock.now() + 365 * DAY) }]);
  await test.clock.step(-400 * DAY);
  await test.publish("deposit:paid", { id: "order:2" });
  await test.clock.step(400 * DAY);
  await run();
  await test.clock.advance(31 * DAY);
  await run();
  expect(await test.parts.history.event("key_1", "order:2")).toBeUndefined();
});
