// A node whose clock is wrong for a moment decides nothing for the others.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { claim, claimOne, due, enqueue } from "../conformance/queue.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";

const HOUR_MS = 3_600_000;
const missing = needs("redis");
const clock = systemClock();
const ahead: Clock = {
  now: () => clock.now() + HOUR_MS,
  monotonic: () => clock.monotonic(),
  sleep: (until, signal) => clock.sleep(until - HOUR_MS, signal),
};

describe.skipIf(missing !== undefined)(
  `a node whose clock is an hour ahead${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    let server: RedisServer;
    let near: Storage;
    let wrong: Storage;
    beforeAll(async () => {
      server = await startRedis();
      const url = server.url;
      near = await redis({ url }).setup(pluginContext(clock, "/nonexistent"));
      wrong = await redis({ url }).setup(pluginContext(ahead, "/nonexistent"));
    });
    afterAll(async () => {
      await wrong?.dispose();
      await near?.dispose();
      await server?.[Symbol.asyncDispose]();
    });

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
  },
);
