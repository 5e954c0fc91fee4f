// The deliveries of wide events are written in pages: what a page meets on its way.
import { expect, it } from "vitest";
import { StorageError } from "../../core/model/errors.ts";
import { isFanoutQueue } from "../../core/model/schema.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock } from "../support/clock.ts";
import type { TestPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import * as wide from "../support/wide.ts";

async function room(count: number): Promise<{ test: TestPath; ids: string[] }> {
  const clock = testClock();
  const test = await wide.widePath(clock, await memory().setup(pluginContext(clock, "/nonexistent")));
  return { test, ids: await wide.subscribers(test, count) };
}

it("a fan-out goes on behind a page of which nobody could tell that it was stored", async () => {
  const { test, ids } = await room(23);
  await using _ = test;
  const { queue } = test.storage;
  const settle = queue.settle.bind(queue);
  let doubts = 2;
  queue.settle = async (lease, changes, then) => {
    if (!isFanoutQueue(lease.subscriptionId) || doubts-- <= 0) return await settle(lease, changes, then);
    await test.storage.commit(changes);
    throw new StorageError("uncertain", "no answer");
  };
  const [event] = await wide.publishMany(test, 1);
  await test.start();
  const id = event?.id as string;
  // The queue learns of what that page wrote from the next sweep.
  for (let seconds = 0; seconds < 70 && !(await wide.ended(test, id)()); seconds++) await test.clock.advance(1_000);
  expect(await wide.outcomes(test, id)).toEqual(wide.everyOne(ids, "delivered"));
  expect(test.sent).toHaveLength(23);
  expect(await wide.faults(test.storage)).toEqual([]);
});
