// One record that cannot be read, and what retention does with all others.
import { expect, it } from "vitest";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";
import { quietLog } from "../support/quiet.ts";
import { until } from "../support/until.ts";
import * as wide from "../support/wide.ts";

const DAY_MS = 86_400_000;

const eventsOfKey = async (test: TestPath, keyId: string): Promise<number> =>
  (await test.storage.range(`event:${keyId}:`)).length;
const retain = (test: TestPath): Promise<number> =>
  test.parts.retention.run({ deliveredAfterMs: DAY_MS }, new AbortController().signal);

const warned = ({ lines }: ReturnType<typeof quietLog>): readonly string[] =>
  lines.filter(({ level }) => level === "warn").map(({ message }) => message);

it("keeps a wide event with a damaged snapshot, and deletes the others", async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  const log = quietLog();
  {
    await using test = await wide.widePath(clock, storage);
    await wide.subscribers(test, 9, "key_a");
    const [first] = await wide.publishMany(test, 1, { keyId: "key_a" });
    await test.publish("deposit:paid", { keyId: "key_b" });
    await test.start();
    await until(wide.ended(test, first?.id as string, "key_a"));
  }
  for (const { key } of await storage.range("members:")) await storage.commit([{ op: "put", key, value: "sub_x 1" }]);
  // A row that does not say yet that the event has ended: its deliveries must be read.
  for (const { key, value } of await storage.range("fanout:"))
    await storage.commit([{ op: "put", key, value: `${value.split(" ")[0]} open` }]);
  await clock.advance(3 * DAY_MS);
  await using test = await testPath({ clock, storage, log });
  expect(await retain(test)).toBe(1);
  expect(await eventsOfKey(test, "key_a")).toBe(1);
  expect(await eventsOfKey(test, "key_b")).toBe(0);
  expect(warned(log)).toEqual(["retention keeps what it cannot read"]);
});

it("deletes what was delivered to a subscription that is damaged by now, and keeps what is not", async () => {
  await using test = await testPath();
  const id = await test.subscribe(["deposit:paid"], "key_a");
  for (const keyId of ["key_a", "key_a", "key_b"]) await test.publish("deposit:paid", { keyId });
  await test.start();
  await test.whenSent(2);
  await test.clock.advance(0);
  await test.parts.dispatcher.stop(0);
  await test.publish("deposit:paid", { keyId: "key_a" });
  await test.clock.advance(3 * DAY_MS);
  const key = SUBSCRIPTION.key({ keyId: "key_a", id });
  const text = (await test.storage.getItem(key)) as string;
  await test.storage.commit([{ op: "put", key, value: '{"id":"sub_' }]);
  expect(await retain(test)).toBe(3);
  expect(await eventsOfKey(test, "key_a")).toBe(1);
  expect(await eventsOfKey(test, "key_b")).toBe(0);
  await test.storage.commit([{ op: "put", key, value: text }]);
  await test.clock.advance(DAY_MS);
  expect(await retain(test)).toBe(0);
});

it("keeps an event with a damaged delivery: nobody can say whether that has ended", async () => {
  await using test = await testPath();
  await test.deliver(replied(200));
  const [row] = await test.storage.range("delivery:");
  await test.storage.commit([{ op: "put", key: row?.key ?? "", value: "{" }]);
  await test.clock.advance(3 * DAY_MS);
  const rule = { deliveredAfterMs: DAY_MS, failedAfterMs: DAY_MS };
  expect(await test.parts.retention.run(rule, new AbortController().signal)).toBe(0);
  expect(await eventsOfKey(test, "key_1")).toBe(1);
});
