/** What the in-process queue reads of storage to find lines whose times cannot be true. The laws themselves are in test/conformance. */
import { expect, it } from "vitest";
import { dueKey, dueValue } from "../../core/model/keys.ts";
import { createQueue } from "../../plugins/storage/embedded/queue.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { claim, due } from "../conformance/queue.ts";
import { testClock, turn } from "../support/clock.ts";

const LINES = 20_000;
const HOUR_MS = 3_600_000;

it("reads what waits for later once after a start and once after a step, not again and again", async () => {
  const clock = testClock();
  const map = sortedMap();
  let read = 0;
  const queue = createQueue({
    clock,
    range: async (prefix, options) => {
      const page = map.range(prefix, options);
      read += page.length;
      return page;
    },
    commit: () => Promise.resolve(),
    count: async (prefix) => map.count(prefix),
  });
  for (let i = 0; i < LINES; i++) {
    const one = due("a", i, clock.now() + HOUR_MS + i, { attempts: 1, waitMs: HOUR_MS + i });
    map.set(dueKey(one), dueValue(one));
  }
  const rest = async (): Promise<void> => {
    for (let i = 0; i < 2 * (LINES / 250); i++) await turn();
    for (let i = 0; i < 20; i++) {
      await clock.advance(30_000);
      await queue.sweep();
      expect(await claim(queue)).toEqual([]);
    }
  };
  await queue.sweep();
  await rest();
  const start = read;
  expect(start).toBeLessThan(2 * LINES);
  await clock.step(-90_000);
  await rest();
  // The search, then those that are due next, and what each sweep looks at.
  expect(read - start).toBeLessThan(2 * LINES);
  await queue.close();
});
