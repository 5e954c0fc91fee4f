// Publishing on a key whose subscriptions are changed all the time.
import { it } from "vitest";
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
