// Publishing on a key whose subscriptions are changed all the time.
import { it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import { testPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { subscribers, widePath } from "../support/wide.ts";

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
  const { commit } = test.storage;
  let late = 20;
  test.storage.commit = async (changes) => {
    if (changes.some(({ key }) => key.startsWith("event:")) && late-- > 0) throw new ConflictError(["subscription:"]);
    return commit(changes);
  };
  await test.publish();
  await test.start();
  await test.whenSent(1);
});

it("loses no operational event to a change that its node has not heard of", async () => {
  await using test = await testPath();
  await test.subscribe(["relay:*"]);
  const { commit } = test.storage;
  let late = 1;
  test.storage.commit = async (changes) => {
    if (changes.some(({ key }) => key.startsWith("event:")) && late-- > 0) throw new ConflictError(["subscription:"]);
    return commit(changes);
  };
  await test.parts.operational.accept("key_1", "relay:ping", {});
  await test.start();
  await test.whenSent(1);
});

it("takes an event for many subscriptions although one is made during each write of their list", async () => {
  const clock = testClock();
  await using test = await widePath(clock, await memory().setup(pluginContext(clock, "/nonexistent")));
  await subscribers(test, 8);
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
  const clock = testClock();
  await using test = await widePath(clock, await memory().setup(pluginContext(clock, "/nonexistent")));
  await subscribers(test, 8);
  const { commit } = test.storage;
  let late = 20;
  test.storage.commit = async (changes) => {
    if (changes.some(({ key }) => key.startsWith("event:")) && late-- > 0) {
      await test.subscribe();
      throw new ConflictError(["subscription:"]);
    }
    return commit(changes);
  };
  await test.publish();
  await test.start();
  await test.whenSent(28);
});
