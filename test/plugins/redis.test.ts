import { afterAll, beforeAll, describe, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { redisAt } from "../../plugins/storage/redis.ts";
import { describeCounters } from "../conformance/counters.ts";
import { describeStorage } from "../conformance/storage.ts";
import { testClock } from "../support/clock.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

/** Longer than any law moves the clock with a lease in hand. */
const LEASE_MS = 600_000;
const missing = needs("redis");

describe.skipIf(missing !== undefined)(
  `redis() on a real server${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    const clock = testClock();
    const prefixes = new Map<Storage, string>();
    let server: RedisServer;
    let made = 0;

    beforeAll(async () => {
      server = await startRedis();
    });
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
    });

    async function openAs(prefix: string): Promise<Storage> {
      const storage = await redisAt({ url: server.url, prefix, leaseMs: LEASE_MS }, clock.now).setup(
        pluginContext(clock, "/nonexistent"),
      );
      prefixes.set(storage, prefix);
      return storage;
    }
    const prefixOf = (storage: Storage): string => prefixes.get(storage) as string;

    describeStorage("redis()", {
      clock,
      open: () => openAs(`law${++made}`),
      async reopen(storage) {
        await storage.dispose();
        return openAs(prefixOf(storage));
      },
      second: (storage) => openAs(prefixOf(storage)),
      lapse: () => clock.advance(LEASE_MS),
      backlog: 11_000,
      publishers: 8,
      publisherSubscriptions: 2,
      skips: { untold: "the commit that writes a due line puts it into the queue" },
    });

    describe("counters", () => {
      describeCounters(it, {
        open: async () => (await openAs("counters")).counters,
        advance: (ms) => clock.advance(ms),
        key: () => `key${++made}`,
      });
    });
  },
);
