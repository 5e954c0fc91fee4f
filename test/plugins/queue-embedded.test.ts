/** The in-process queue and the lines that it has no room for, or whose times cannot be true. Its laws are in test/conformance. */
import { describe, expect, it } from "vitest";
import { DUE } from "../../core/model/schema.ts";
import type { Due } from "../../core/model/delivery.ts";
import type { Entry, Lease } from "../../core/ports/storage.ts";
import { EmbeddedQueue } from "../../plugins/storage/embedded/queue.ts";
import { sortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { Timeline } from "../../plugins/storage/embedded/timeline.ts";
import { WakeTimer } from "../../plugins/storage/embedded/wake-timer.ts";
import { Window } from "../../plugins/storage/embedded/window.ts";
import { claim, due } from "../conformance/queue.ts";
import { testClock, turn } from "../support/clock.ts";

const LINES = 20_000;
const HOUR_MS = 3_600_000;

/** Opens a queue over lines in memory, whose every page is read through `gate`. */
function openQueue({
  window,
  gate = () => undefined,
  commit = () => Promise.resolve(),
}: { window?: number; gate?: (prefix: string) => Promise<void> | undefined; commit?: () => Promise<void> } = {}) {
  const clock = testClock();
  const map = sortedMap();
  let read = 0;
  const queue = new EmbeddedQueue(
    {
      async range(prefix, options): Promise<Entry[]> {
        await gate(prefix);
        const page = map.range(prefix, options);
        read += page.length;
        return page;
      },
      commit: (changes) => (changes.length === 0 ? Promise.resolve() : commit()),
      count: async (prefix) => map.count(prefix),
    },
    clock,
    window,
  );
  return {
    clock,
    queue,
    read: () => read,
    store: (one: Due): Due => {
      map.set(DUE.key(one), DUE.write(one));
      return one;
    },
    async end(lease: Lease): Promise<void> {
      map.delete(DUE.key(lease));
      await queue.settle(lease, []);
    },
  };
}

async function turns(many: number): Promise<undefined> {
  for (let i = 0; i < many; i++) await turn();
}

describe("the in-process queue, of what it has no room for,", () => {
  it("claims nothing before its time that was given back for later", async () => {
    const { clock, queue, store, end } = openQueue({ window: 40 });
    const add = (name: string, n: number): void => queue.add([store(due(name, n, clock.now()))]);
    add("rests", 0);
    const [lease] = await claim(queue);
    await queue.release(lease as Lease, clock.now() + 60_000);
    for (let n = 1; n <= 100; n++) add(`other${n}`, n);
    const served = new Set<string>();
    for (let second = 0; second < 59; second++) {
      for (const one of await claim(queue, { limit: 200 })) {
        served.add(one.subscriptionId);
        await end(one);
      }
      await queue.sweep();
      await turn();
      await clock.advance(1_000);
    }
    expect(served.size).toBe(100);
    expect(served).not.toContain(lease?.subscriptionId);
    await clock.advance(2_000);
    await queue.sweep();
    expect(await claim(queue)).toMatchObject([{ subscriptionId: lease?.subscriptionId }]);
    await queue.close();
  });

  it("claims one again whose withdrawal failed while all others were served", async () => {
    const refused = Promise.withResolvers<void>();
    const { clock, queue, store, end } = openQueue({ window: 40, commit: () => refused.promise });
    const lines = Array.from({ length: 200 }, (_, n) => store(due("a", n, clock.now())));
    await queue.sweep();
    const one = lines[150] as Due;
    const withdrawing = queue
      .withdraw(one, [{ op: "delete", key: DUE.key(one) }])
      .catch((error: Error) => error.message);
    let served = 0;
    for (let idle = 0; idle < 10;) {
      const claimed = await claim(queue, { limit: 20 });
      idle = claimed.length === 0 ? idle + 1 : 0;
      served += claimed.length;
      for (const lease of claimed) await end(lease);
      await turns(5);
    }
    refused.reject(new Error("refused"));
    expect([served, await withdrawing]).toEqual([199, "refused"]);
    await turns(5);
    expect(await claim(queue)).toMatchObject([{ ordinal: one.ordinal }]);
    await queue.close();
  });

  it("claims lines of one subscription while those of another are still being read", async () => {
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const { clock, queue, store } = openQueue({ window: 40, gate: (prefix) => gates.get(prefix)?.promise });
    for (const name of ["a", "b"]) for (let n = 0; n < 100; n++) store(due(name, n, clock.now()));
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

  it("reads pages of many subscriptions with turns for other work in between", async () => {
    let pages = 0;
    const { clock, queue, store } = openQueue({ window: 2_000, gate: async () => void pages++ });
    for (let sub = 0; sub < 500; sub++) for (let n = 0; n < 10; n++) store(due(`sub${sub}`, n, clock.now()));
    await queue.sweep();
    pages = 0;
    await claim(queue, { limit: 2_000 });
    await new Promise((resolve) => void setImmediate(resolve));
    expect(pages).toBeGreaterThan(0);
    expect(pages).toBeLessThan(50);
    await queue.close();
  });
});

describe("the in-process queue, of lines whose times cannot be true,", () => {
  const retry = (n: number, now: number, waitMs: number): Due => due("a", n, now + waitMs, { attempts: 1, waitMs });

  it("reads what waits for later once after a start and once after a step, not again and again", async () => {
    const { clock, queue, store, read } = openQueue();
    for (let i = 0; i < LINES; i++) store(retry(i, clock.now(), HOUR_MS + i));
    const rest = async (): Promise<void> => {
      await turns(2 * (LINES / 250));
      for (let i = 0; i < 20; i++) {
        await clock.advance(30_000);
        await queue.sweep();
        expect(await claim(queue)).toEqual([]);
      }
    };
    await queue.sweep();
    await rest();
    const start = read();
    expect(start).toBeLessThan(2 * LINES);
    await clock.step(-90_000);
    await rest();
    // The search, then those that are due next, and what each sweep passes.
    expect(read() - start).toBeLessThan(2 * LINES);
    await queue.close();
  });

  it("claims every retry of a long backlog by the end of its wait after the clock was set back by a day", async () => {
    const { clock, queue, store, end } = openQueue({ window: 1_000 });
    for (let i = 0; i < LINES; i++) store(retry(i, clock.now(), 20_000 + (i % 10_000)));
    await queue.sweep();
    await clock.step(-24 * HOUR_MS);
    let claimed = 0;
    const work = async (): Promise<void> => {
      for (let idle = 0; idle < 5; idle++) {
        for (let page; (page = await claim(queue, { limit: 500, perSubscription: LINES })).length > 0; idle = 0) {
          claimed += page.length;
          for (const lease of page) await end(lease);
        }
        await turns(2 * (LINES / 250));
      }
    };
    const seconds = async (from: number, to: number): Promise<void> => {
      for (let second = from; second <= to; second++) {
        await clock.advance(1_000);
        await work();
      }
    };
    await work();
    await seconds(1, 19);
    expect(claimed).toBe(0);
    await seconds(20, 31);
    expect(claimed).toBe(LINES);
    await queue.close();
  });

  it("claims in time what was left to storage when the clock was set back while nobody claimed anything", async () => {
    const { clock, queue, store, end } = openQueue({ window: 40 });
    const retries = (from: number, waitMs: number): readonly Due[] =>
      Array.from({ length: 100 }, (_, i) => store(retry(from + i, clock.now(), waitMs)));
    retries(0, 60_000);
    let claimed = 0;
    const closing = new AbortController();
    const worker = (async () => {
      while (!closing.signal.aborted) {
        await queue.wake(closing.signal);
        for (const lease of await claim(queue)) {
          claimed++;
          await end(lease);
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
});

it("sets one timer for a wait of hours, however often its subscription is held back for a moment meanwhile", async () => {
  const clock = testClock();
  const time = new Timeline(clock);
  const timer = new WakeTimer(time, (queue) => window.touch(queue));
  const window = new Window(time, timer, 16);
  const far = clock.now() + HOUR_MS;
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
  expect(timer.times.size).toBe(1);
  timer.close();
});

it("lets a commit wait for others where it is about a later attempt, and not one that makes room for what may be claimed", async () => {
  const clock = testClock();
  const asked: unknown[] = [];
  const commit = async (_changes: unknown, soon?: boolean): Promise<void> => void asked.push(soon);
  const queue = new EmbeddedQueue({ range: async () => [], commit, count: async () => 0 }, clock);
  queue.add(["a", "b", "c"].map((name, n) => due(name, n, clock.now())));
  const [retried, held] = (await claim(queue, { limit: 2 })) as [Lease, Lease];
  await queue.settle(retried, [], { next: { ...retried, dueAt: clock.now() + 5_000 } });
  await queue.settle(held, [], { keep: { ...held, dueAt: clock.now() + 5_000 } });
  // "c" may be claimed.
  await queue.settle(held, []);
  expect(asked).toEqual([true, true, false]);
  await queue.close();
});

it("a cancel frees the leases of its subscription, each once, also where one is being settled", async () => {
  const { queue, store } = openQueue();
  queue.add([store(due("a", 1, 1)), store(due("a", 2, 2)), store(due("b", 1, 1))]);
  const leases = await claim(queue);
  expect(await queue.depth()).toMatchObject({ leased: 3 });
  const { subscriptionId: id } = due("a", 1, 1);
  const settling = queue.settle(leases.find(({ subscriptionId }) => subscriptionId === id) as Lease, []);
  await queue.cancel(id);
  await settling;
  expect(await queue.depth()).toMatchObject({ leased: 1 });
  await queue.close();
});
