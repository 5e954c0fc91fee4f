/** Publications that fail at the storage take nothing along: room and turns are there for the next one. */
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { turn } from "../support/clock.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { testPath } from "../support/path.ts";

const ACTOR = { sub: "tester" };
/** More than are let to the storage at once. */
const FAILURES = 2_200;

it.each([
  { which: "without order", ordered: false },
  { which: "in order", ordered: true },
])("of events $which", async ({ ordered }) => {
  await using test = await testPath();
  const url = "https://receiver.example/hook";
  await test.parts.subscriptions.create("key_1", { url, events: ["deposit:paid"], ordered }, ACTOR);
  await test.publish("deposit:paid");
  const { commit } = test.storage;
  test.storage.commit = () => Promise.reject(new StorageError("unavailable", "the disk is away"));
  let failed = 0;
  for (let n = 0; n < FAILURES; n += 100) {
    const some = Array.from({ length: 100 }, () => test.publish("deposit:paid").catch(() => failed++));
    const all = Promise.all(some);
    for (let turns = 0; turns < 200 && failed < n + 100; turns++) await turn();
    expect(failed).toBe(n + 100);
    await all;
  }
  test.storage.commit = commit;
  let published = "";
  void test.publish("deposit:paid").then((id) => (published = id));
  for (let turns = 0; turns < 50 && published === ""; turns++) await turn();
  expect(published).toMatch(/^evt_/);
});

it("or may have succeeded are stored once, and left to the next sweep: others may have delivered them by now", async () => {
  const made = desk();
  made.subscriptions = [subscription("a")];
  made.shelf.after = () => {
    made.shelf.after = () => {};
    throw new StorageError("uncertain", "the answer is lost");
  };
  const [accepted] = await made.intake.accept(publish([paid()]));
  expect(accepted).toMatchObject({ deliveries: 1, duplicate: false });
  expect(made.shelf.commits).toHaveLength(1);
  expect(made.shelf.added).toEqual([]);
});
