// Pages of large values on Redis: no call takes so many bytes that it lasts as long as a call may.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Calls } from "../../plugins/storage/redis/calls.ts";
import { connection, tagOf, type RedisConnection } from "../../plugins/storage/redis/connect.ts";
import { manyValues, ranges } from "../../plugins/storage/redis/range.ts";
import { testClock } from "../support/clock.ts";
import { describeRedis, sharedRedis } from "../support/redis-bench.ts";

const VALUE = "v".repeat(256 * 1024);
const COUNT = 40;

describeRedis("pages on Redis", {}, () => {
  const tag = tagOf("pages");
  const server = sharedRedis();
  let connected: RedisConnection;
  let made: Pick<Calls, "run" | "ask">;
  /** Bytes of each answer. */
  const answers: number[] = [];
  beforeAll(async () => {
    connected = await connection({ url: server().url }, "pages");
    await connected.client.connect();
    const own = new Calls(connected.client, tag, testClock());
    made = {
      ask: (...args) => own.ask(...args),
      async run(...args) {
        const reply = (await own.run(...args)) as unknown[];
        answers.push(reply.reduce<number>((sum, one) => sum + String(one).length, 0));
        return reply;
      },
    };
    for (let n = 0; n < COUNT; n++) {
      await connected.client.set(`${tag}:r:event:k:${100 + n}`, VALUE);
      await connected.client.zadd(`${tag}:i:event:`, 0, `k:${100 + n}`);
    }
  });
  afterAll(() => connected?.client.disconnect());

  it("are read in order and by name in answers of little more than a mebibyte", async () => {
    const now = () => "" as const;
    expect(await ranges(made, tag, now)("event:k:", { limit: 500 })).toHaveLength(COUNT);
    const names = Array.from({ length: COUNT }, (_, n) => `event:k:${100 + n}`);
    expect(await manyValues(made, tag, now)(names)).toEqual(names.map(() => VALUE));
    expect(Math.max(...answers)).toBeLessThan(2 * 1024 * 1024);
  });
});
