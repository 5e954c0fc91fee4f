// A subscription that is read again while an attempt begins: the attempt goes on when it is the same version, else it looks again.
import { expect, it } from "vitest";
import { memory } from "../../plugins/storage/memory.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { testClock } from "../support/clock.ts";
import { testPath } from "../support/path.ts";

it("an attempt is made though the cache has dropped its subscription meanwhile, each time", async () => {
  const clock = testClock();
  const storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  const watchers: ((keys: readonly string[]) => void)[] = [];
  const watch = storage.watch.bind(storage);
  storage.watch = (changed) => {
    watchers.push(changed);
    return watch(changed);
  };
  await using test = await testPath({ clock, storage });
  await test.subscribe();
  const { extend } = storage.queue;
  let looks = 0;
  storage.queue.extend = async (lease) => {
    // As when it holds more subscriptions than it has room for, or when messages of other nodes were missed.
    if (looks++ < 100) for (const changed of watchers) changed(["subscription:"]);
    return await extend.call(storage.queue, lease);
  };
  await test.start();
  await test.publish();
  await test.whenSent(1);
  expect(looks).toBe(1);
});
