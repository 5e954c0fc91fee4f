/** The wall clock is set forwards by two days for a while (a wrong NTP server), and the nightly retention runs meanwhile. */
import { expect, it } from "vitest";
import { testPath } from "../support/path.ts";

const DAY = 86_400_000;

it("a clock that is set forwards while the relay runs removes no event of an hour ago", async () => {
  await using test = await testPath();
  await test.subscribe();
  await test.start();
  await test.publish("deposit:paid", { id: "order:1" });
  await test.whenSent(1);
  await test.clock.advance(3_600_000);
  await test.clock.step(2 * DAY);
  const removed = await test.parts.retention.run({ deliveredAfterMs: DAY }, new AbortController().signal);
  await test.clock.step(-2 * DAY);
  // The publisher repeats itself, as it may within a day.
  await test.publish("deposit:paid", { id: "order:1" });
  await test.clock.advance(60_000);
  expect({ removed, sent: test.sent.length }).toEqual({ removed: 0, sent: 1 });
});

it("a clock that was behind at the start, and was set right, is believed a day later", async () => {
  await using test = await testPath();
  const options = { deliveredAfterMs: DAY };
  const run = (): Promise<number> => test.parts.retention.run(options, new AbortController().signal);
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
