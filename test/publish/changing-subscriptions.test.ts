// Publishing on a key whose subscriptions are changed all the time.
import { it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { subscriptionsOf } from "../../core/model/keys.ts";
import { testPath } from "../support/path.ts";

it("takes an event although a subscription is made during each read of all of them", async () => {
  await using test = await testPath();
  await test.subscribe();
  const { range } = test.storage;
  let making = false;
  test.storage.range = async (prefix, options) => {
    const rows = await range(prefix, options);
    if (prefix !== subscriptionsOf("key_1") || making) return rows;
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
  await test.parts.publisher.acceptOperational("key_1", "relay:ping", {});
  await test.start();
  await test.whenSent(1);
});
