// Publishing on a key whose subscriptions are changed all the time.
import { it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { testPath, type TestPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { subscribers, widePath } from "../support/wide.ts";

/** So many commits of events are refused, because the node has not heard of a change to subscriptions. */
function refused(test: TestPath, times: number, change?: () => Promise<unknown>): void {
  const { commit } = test.storage;
  test.storage.commit = async (changes) => {
    if (!changes.some(({ key }) => key.startsWith("event:")) || times-- <= 0) return commit(changes);
    await change?.();
    throw new ConflictError(["subscription:"]);
  };
}

async function widely(): Promise<TestPath> {
  const clock = testClock();
  const test = await widePath(clock, await memory().setup(pluginContext(clock, "/nonexistent")));
  await subscribers(test, 8);
  return test;
}

it("takes an event although a subscription is made during each read of all of them", async () => {
  await using test = await testPath();
  await test.subscribe();
  const { range } = test.storage;
  let making = false;
  test.storage.range = async (prefix, options) => {
    const rows = await range(prefix, options);
    if (prefix !== SUBSCRIPTION.under({ keyId: "key_1" }) || making) return rows;
    making = true;
    await test.subscribe();
    making = false;
    return rows;
  };
  await test.publish();
  await test.start();
  await test.whenSent(2);
});

it("takes an event although its node hears of twenty changes one after another too late", async () => {
  await using test = await testPath();
  await test.subscribe();
  refused(test, 20);
  await test.publish();
  await test.start();
  await test.whenSent(1);
});

it("loses no operational event to a change that its node has not heard of", async () => {
  await using test = await testPath();
  await test.subscribe(["relay:*"]);
  refused(test, 1);
  await test.parts.operational.accept("key_1", "relay:ping", {});
  await test.start();
  await test.whenSent(1);
});

it("takes an event for many subscriptions although one is made during each write of their list", async () => {
  await using test = await widely();
  const { commit } = test.storage;
  let making = false;
  let made = 0;
  test.storage.commit = async (changes) => {
    if (!making && made < 200 && changes.some(({ key }) => key.startsWith("members:"))) {
      making = true;
      made++;
      await test.subscribe();
      making = false;
    }
    return commit(changes);
  };
  await test.publish();
  await test.start();
  await test.whenSent(8);
});

it("takes an event for many subscriptions although its node hears of twenty changes one after another too late", async () => {
  await using test = await widely();
  refused(test, 20, () => test.subscribe());
  await test.publish();
  await test.start();
  await test.whenSent(28);
});
