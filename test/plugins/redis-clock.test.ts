// A node whose clock is wrong for a moment decides nothing for the others; nor does a Redis whose clock is set.
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Due } from "../../core/model/delivery.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { connection, type Client } from "../../plugins/storage/redis/connect.ts";
import { claim, claimOne, due, enqueue } from "../conformance/queue.ts";
import { testClock } from "../support/clock.ts";
import { describeRedis, eachBench, RedisBench, sharedRedis } from "../support/redis-bench.ts";

const HOUR_MS = 3_600_000;
const clock = systemClock();
const ahead: Clock = {
  now: () => clock.now() + HOUR_MS,
  monotonic: () => clock.monotonic(),
  sleep: (until, signal) => clock.sleep(until - HOUR_MS, signal),
};

/**
 * Connections on which the calls of all nodes reach Redis one after another, each with the time of its arrival, as with a
 * server's own clock. The time travels in arguments here: two connections alone could bring a later time before an earlier.
 */
function inOrder(now: () => number): typeof connection {
  let last: Promise<unknown> = Promise.resolve();
  return async (options, prefix) => {
    const made = await connection(options, prefix);
    const ordered = (client: Client): Client => {
      const call = client.call.bind(client) as (name: string, parts: unknown[]) => Promise<unknown>;
      const arrive = (name: string, parts: unknown[]): Promise<unknown> => {
        const own = last.then(() => call(name, parts.with(4, String(parts[4]).replace(/^\d+/u, String(now())))));
        last = own.catch(() => {});
        return own;
      };
      return Object.assign(client, { call: arrive });
    };
    return {
      ...made,
      client: ordered(made.client),
      subscriber: () => ordered(made.subscriber()),
      patient: () => ordered(made.patient()),
    };
  };
}

describeRedis("a node whose clock is an hour ahead", {}, () => {
  const server = sharedRedis();
  const bench = new RedisBench();
  let near: Storage;
  let wrong: Storage;
  beforeAll(async () => {
    const { url } = server();
    [near, wrong] = [await bench.open({ url }), await bench.open({ url }, { clock: ahead })];
  });
  afterAll(() => bench[Symbol.asyncDispose]());

  /** Whose turn comes next, waited for as the dispatcher waits. That nothing comes too early is in the law of the queue. */
  async function claimed(): Promise<string> {
    for (;;) {
      const [lease] = await claim(near.queue);
      if (lease !== undefined) return lease.subscriptionId;
      await near.queue.wake(AbortSignal.timeout(5_000));
    }
  }

  it("pauses a subscription for as long as it says, and no hour more", async () => {
    await wrong.queue.pause("sub_a", 300);
    await enqueue(near, due("a", 1, clock.now()));
    expect(await claimed()).toBe("sub_a");
  });

  it("accepts what is due at once, and what is due later, by how long that is", async () => {
    await enqueue(wrong, due("c", 1, ahead.now()));
    expect(await claimOne(near.queue)).toMatchObject({ subscriptionId: "sub_c" });
    await enqueue(wrong, due("d", 1, ahead.now() + 300));
    expect(await claimed()).toBe("sub_d");
  });

  it("gives a delivery back for as long as it says", async () => {
    await enqueue(near, due("b", 1, clock.now()));
    const lease = await claimOne(wrong.queue);
    await wrong.queue.release(lease, ahead.now() + 300);
    expect(await claimed()).toBe("sub_b");
  });
});

describeRedis("a Redis whose own clock is set", {}, () => {
  const SECOND = 1_000;
  const hand = testClock();
  let offset = 0;
  const server = sharedRedis();
  const bench = eachBench();
  let made = 0;
  const serverNow = (): number => hand.now() + offset;
  const connect = inOrder(serverNow);
  afterEach(() => {
    offset = 0;
  });
  const open = (prefix: string): Promise<Storage> =>
    bench().open({ url: server().url, prefix }, { clock: hand }, serverNow, connect);

  /** Returns the claims while so much time passes, of a worker that claims each second. */
  async function worked({ queue }: Storage, ms: number): Promise<readonly string[]> {
    const seen = (await claim(queue)).map(({ ordinal }) => ordinal);
    for (let left = ms; left > 0; left -= SECOND) {
      await hand.advance(Math.min(left, SECOND));
      seen.push(...(await claim(queue)).map(({ ordinal }) => ordinal));
    }
    return seen;
  }

  it.each([90, -90, 3_600, -3_600, 86_400, -86_400])(
    "by %d s delays nothing, ends no lease, pause or wait before its time, and is forgotten when it is taken back",
    async (seconds) => {
      const [near, other] = [await open(`step${++made}`), await open(`step${made}`)];
      await enqueue(near, due("held", 1, hand.now()));
      const lease = await claimOne(near.queue);
      const wait = (n: number): Due => due("a", n, hand.now() + 20 * SECOND, { attempts: 1, waitMs: 20 * SECOND });
      const [before, after] = [wait(2), due("b", 3, hand.now())];
      await near.queue.pause("sub_p", 20 * SECOND);
      await enqueue(near, before, due("p", 4, hand.now()));
      for (const step of [seconds, -seconds]) {
        offset += step * SECOND;
        // Whatever comes first after the step, it is not taken in.
        const fresh = { ...after, ordinal: `${after.ordinal.slice(0, -1)}${step > 0 ? 8 : 9}` };
        await enqueue(near, fresh);
        expect(await worked(other, SECOND)).toEqual([fresh.ordinal]);
        expect(await worked(near, 5 * SECOND)).toEqual([]);
        expect(await near.queue.extend(lease)).toBe(true);
      }
      expect(await worked(other, 6 * SECOND)).toEqual([]);
      expect((await worked(near, 6 * SECOND)).toSorted()).toEqual([before.ordinal, due("p", 4, 0).ordinal]);
    },
  );

  it("that was set back keeps nobody out for longer than a window of the limits", async () => {
    const { counters, queue } = await open("limits");
    const window = { limit: 1, windowMs: 60 * SECOND };
    const take = { key: "who", sustained: window, burst: window };
    expect((await counters.take([take]))[0]?.code).toBeUndefined();
    offset -= HOUR_MS;
    expect((await counters.take([take]))[0]?.code).toBeDefined();
    for (let i = 0; i < 61; i++) {
      await hand.advance(SECOND);
      await queue.claim({ limit: 1, perSubscription: 1, busy: new Map() });
    }
    expect((await counters.take([take]))[0]?.code).toBeUndefined();
  });

  it("that was set back and forwards while no node was there delays nothing that waits", async () => {
    const prefix = `down${++made}`;
    const first = await open(prefix);
    offset = 24 * HOUR_MS;
    await enqueue(first, due("a", 1, hand.now()), due("a", 2, hand.now() + 10_000, { attempts: 1, waitMs: 10_000 }));
    await first.dispose();
    offset = 0;
    expect(await worked(await open(prefix), 12 * SECOND)).toHaveLength(2);
  });
});
