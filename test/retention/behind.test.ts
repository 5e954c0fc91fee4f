/** A node whose clock is far behind at its start (no battery) accepts events; then its clock is set right. */
import { expect, it } from "vitest";
import { testPath } from "../support/path.ts";

const DAY = 86_400_000;

it("what a clock that was far behind has accepted is removed like all the rest", async () => {
  await using test = await testPath();
  const options = { deliveredAfterMs: 2 * DAY };
  const run = (): Promise<number> => test.parts.retention.run(options, new AbortController().signal);
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
