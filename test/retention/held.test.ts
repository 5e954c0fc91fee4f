// Retention removes an old failed delivery that holds up its sequence: those behind it wait until a skip.
import { expect, it } from "vitest";
import { heldOfSubscription, skipHeld } from "../../core/records/held.ts";
import { replied, testPath } from "../support/path.ts";
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
