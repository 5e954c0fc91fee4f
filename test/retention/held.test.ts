// Retention removes an old failed delivery that holds up its sequence: those behind it wait until a skip.
import { expect, it } from "vitest";
import { memory } from "../../plugins/storage/memory.ts";
import { heldOfSubscription, skipHeld } from "../../core/records/held.ts";
import { testClock } from "../support/clock.ts";
import { replied, testPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { faults } from "../support/wide.ts";

const DAY = 86_400_000;
const ACTOR = { sub: "tester" };
const URL = "https://receiver.example/ordered";

it.each([
  ["of a few", 256],
  ["wide", 3],
])("those behind the held delivery of an event %s wait until a skip, and go at once then", async (_, perEvent) => {
  await using test = await testPath({ fanout: { perEvent, few: perEvent, page: 3 }, retry: { attempts: 1 } });
  for (let n = 0; n < 5; n++) await test.subscribe(["first"]);
  const given = { url: URL, events: ["first", "later"], ordered: true, onFailed: "hold" } as const;
  const { subscription } = await test.parts.subscriptions.create("key_1", given, ACTOR);
  const ordered = (): number => test.sent.filter(({ url }) => url === URL).length;
  test.otherwise = async ({ url }) => replied(url === URL ? 500 : 200);
  await test.start();
  const first = await test.publish("first");
  await test.whenSent(6);
  await test.clock.advance(0);
  test.otherwise = replied(200);
  await test.publish("later");
  await test.clock.advance(3 * DAY);
  const signal = new AbortController().signal;
  expect(await test.parts.retention.run({ failedAfterMs: DAY, deliveredAfterMs: DAY }, signal)).toBe(1);
  expect(await test.status(first)).toBeUndefined();
  await test.clock.advance(60_000);
  expect(ordered()).toBe(1);
  const [held] = await heldOfSubscription(test.storage, subscription.id);
  if (held === undefined) throw new Error("nothing is held");
  expect(held.row?.eventId).toBe(first);
  expect(await skipHeld(test.storage, "key_1", held)).toBe(true);
  await test.whenSent(7);
  expect(ordered()).toBe(2);
  expect(await faults(test.storage)).toEqual([]);
});

it("a delivery in order that ended with its subscription stays until it has passed its turn on", async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  let later = "";
  {
    await using test = await testPath({ clock, storage, retry: { firstDelayMs: 3_600_000, factor: 1 } });
    const given = { url: URL, events: ["first", "later"], ordered: true } as const;
    const { subscription } = await test.parts.subscriptions.create("key_1", given, ACTOR);
    test.otherwise = replied(500);
    await test.start();
    await test.publish("first");
    await test.whenSent(1);
    await test.clock.advance(0);
    await test.parts.dispatcher.stop(0);
    // Its cycle ends with this, though nothing has been written of it.
    await test.parts.subscriptions.update("key_1", subscription.id, { status: "disabled" }, ACTOR);
    await test.parts.subscriptions.update("key_1", subscription.id, { status: "active" }, ACTOR);
    later = await test.publish("later");
    await test.clock.advance(3 * DAY);
    const signal = new AbortController().signal;
    await test.parts.retention.run({ failedAfterMs: DAY, deliveredAfterMs: DAY }, signal);
  }
  await using test = await testPath({ clock, storage });
  await test.start();
  await test.clock.advance(60_000);
  expect(test.sent.map(({ headers }) => headers["webhook-id"])).toEqual([later]);
  expect(await faults(storage)).toEqual([]);
});
