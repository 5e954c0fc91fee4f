/** What the in-process queue reads of storage to find lines whose times cannot be true. The laws themselves are in test/conformance. */
import { expect, it } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import { DUE } from "../../core/model/schema.ts";
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
    map.set(DUE.key(one), DUE.write(one));
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

it("has every retry of a long backlog claimed by the end of its wait after the clock was set back by a day", async () => {
  const clock = testClock();
  const map = sortedMap();
  const queue = createQueue({
    clock,
    range: async (prefix, options) => map.range(prefix, options),
    commit: () => Promise.resolve(),
    count: async (prefix) => map.count(prefix),
    window: 1_000,
  });
  for (let i = 0; i < LINES; i++) {
    const one = due("a", i, clock.now() + 20_000 + (i % 10_000), { attempts: 1, waitMs: 20_000 + (i % 10_000) });
    map.set(DUE.key(one), DUE.write(one));
  }
  await queue.sweep();
  await clock.step(-24 * HOUR_MS);
  let claimed = 0;
  const work = async (): Promise<void> => {
    for (let idle = 0; idle < 5; idle++) {
      for (let page; (page = await claim(queue, { limit: 500, perSubscription: LINES })).length > 0; idle = 0) {
        claimed += page.length;
        for (const lease of page) {
          map.delete(DUE.key(lease));
          await queue.settle(lease, []);
        }
      }
      for (let i = 0; i < 2 * (LINES / 250); i++) await turn();
    }
  };
  await work();
  for (let second = 1; second < 20; second++) {
    await clock.advance(1_000);
    await work();
  }
  expect(claimed).toBe(0);
  for (let second = 20; second <= 31; second++) {
    await clock.advance(1_000);
    await work();
  }
  expect(claimed).toBe(LINES);
  await queue.close();
});

it("has what was left to storage claimed in time when the clock is set back while nobody claims anything", async () => {
  const clock = testClock();
  const map = sortedMap();
  const queue = createQueue({
    clock,
    range: async (prefix, options) => map.range(prefix, options),
    commit: () => Promise.resolve(),
    count: async (prefix) => map.count(prefix),
    window: 40,
  });
  const retries = (from: number, waitMs: number): readonly Due[] =>
    Array.from({ length: 100 }, (_, i) => {
      const one = due("a", from + i, clock.now() + waitMs, { attempts: 1, waitMs });
      map.set(DUE.key(one), DUE.write(one));
      return one;
    });
  retries(0, 60_000);
  let claimed = 0;
  const closing = new AbortController();
  const worker = (async () => {
    while (!closing.signal.aborted) {
      await queue.wake(closing.signal);
      for (const lease of await claim(queue)) {
        claimed++;
        map.delete(DUE.key(lease));
        await queue.settle(lease, []);
      }
    }
  })();
  await queue.sweep();
  await clock.advance(30_000);
  await clock.step(-24 * HOUR_MS);
  queue.add(retries(100, HOUR_MS));
  await clock.advance(29_000);
  expect(claimed).toBe(0);
  await clock.advance(2_000);
  for (let i = 0; i < 100 && claimed < 100; i++) await turn();
  expect(claimed).toBe(100);
  closing.abort();
  await worker;
  await queue.close();
});
