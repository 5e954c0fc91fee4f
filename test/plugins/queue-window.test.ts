/** What the in-process queue still knows of lines that it has no room for. The laws themselves are in test/conformance. */
import { expect, it } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import type { Lease } from "../../core/ports/storage.ts";
import { heap } from "../../plugins/storage/embedded/binary-heap.ts";
import { createQueue } from "../../plugins/storage/embedded/queue.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import type { SubscriptionQueue } from "../../plugins/storage/embedded/subscription-queue.ts";
import { timeline } from "../../plugins/storage/embedded/timeline.ts";
import { wakeTimer } from "../../plugins/storage/embedded/wake-timer.ts";
import { createWindow } from "../../plugins/storage/embedded/window.ts";
import { claim, due } from "../conformance/queue.ts";
import { testClock, turn } from "../support/clock.ts";

it("does not claim before its time what was given back for later and then had no room", async () => {
  const clock = testClock();
  const map = sortedMap();
  const queue = createQueue({
    clock,
    range: async (prefix, options) => map.range(prefix, options),
    commit: () => Promise.resolve(),
    count: async (prefix) => map.count(prefix),
    window: 40,
  });
  const add = (name: string, n: number): void => {
    const one = due(name, n, clock.now());
    map.set(DUE.key(one), DUE.write(one));
    queue.add([one]);
  };
  add("rests", 0);
  const [lease] = await claim(queue);
  await queue.release(lease as Lease, clock.now() + 60_000);
  for (let n = 1; n <= 100; n++) add(`other${n}`, n);
  const served = new Set<string>();
  for (let second = 0; second < 59; second++) {
    for (const one of await claim(queue, { limit: 200 })) {
      served.add(one.subscriptionId);
      map.delete(DUE.key(one));
      await queue.settle(one, []);
    }
    await queue.sweep();
    await turn();
    await clock.advance(1_000);
  }
  expect(served.size).toBe(100);
  expect(served).not.toContain(lease?.subscriptionId);
  await clock.advance(2_000);
  await queue.sweep();
  const last = await claim(queue);
  expect(last.map(({ subscriptionId }) => subscriptionId)).toEqual([lease?.subscriptionId]);
  await queue.close();
});

it("sets one timer for a wait of hours, however often its subscription is held back for a moment meanwhile", async () => {
  const clock = testClock();
  const time = timeline(clock);
  const times = heap<SubscriptionQueue>();
  const timer = wakeTimer(clock, time, (queue) => window.touch(queue), times);
  const far = clock.now() + 3_600_000;
  const window = createWindow({ clock, time, size: 16, timer, forgot: () => {} });
  const queue = window.queueOf("s");
  window.hold(queue, due("s", 0, far), far);
  for (let n = 1; n <= 50; n++) {
    window.hold(queue, due("s", n, clock.now()), clock.now());
    queue.holdEnds = clock.monotonic() + 100;
    window.touch(queue);
    await clock.advance(100);
    await turn();
    expect(window.ready.has(queue)).toBe(true);
    const [line] = queue.waiting;
    if (line === undefined) throw new Error("nothing waits");
    window.take(line);
    queue.lines.delete(line.due.ordinal);
    window.touch(queue);
  }
  expect(times.size).toBe(1);
  timer.close();
});

/** A queue whose every page is read through `gate`. */
function gated(window: number, gate: (prefix: string) => Promise<void>) {
  const clock = testClock();
  const map = sortedMap();
  const queue = createQueue({
    clock,
    async range(prefix, options) {
      await gate(prefix);
      return map.range(prefix, options);
    },
    commit: () => Promise.resolve(),
    count: async (prefix) => map.count(prefix),
    window,
  });
  const store = (name: string, lines: number): void => {
    for (let n = 0; n < lines; n++) {
      const one = due(name, n, clock.now());
      map.set(DUE.key(one), DUE.write(one));
    }
  };
  return { queue, store };
}

it("gives a claim the lines of one subscription while those of another are still being read", async () => {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const { queue, store } = gated(40, (prefix) => gates.get(prefix)?.promise ?? Promise.resolve());
  store("a", 100);
  store("b", 100);
  await queue.sweep();
  for (const id of ["a", "b"]) gates.set(`due:sub_${id}:`, Promise.withResolvers());
  expect(await claim(queue, { limit: 100 })).not.toEqual([]);
  const second = claim(queue, { limit: 100 });
  gates.get("due:sub_a:")?.resolve();
  const served = await Promise.race([second, turns(20)]);
  expect(new Set(served?.map(({ subscriptionId }) => subscriptionId))).toEqual(new Set(["sub_a"]));
  gates.get("due:sub_b:")?.resolve();
  await queue.close();
});

const turns = async (many: number): Promise<undefined> => {
  for (let i = 0; i < many; i++) await turn();
};

it("lets other work have a turn while it reads pages of many subscriptions", async () => {
  let pages = 0;
  const { queue, store } = gated(2_000, async () => void pages++);
  for (let n = 0; n < 500; n++) store(`sub${n}`, 10);
  await queue.sweep();
  pages = 0;
  await claim(queue, { limit: 2_000 });
  await new Promise((resolve) => void setImmediate(resolve));
  expect(pages).toBeGreaterThan(0);
  expect(pages).toBeLessThan(50);
  await queue.close();
});
