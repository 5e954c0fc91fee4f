// Many callers at the limiter of a Redis: what is held of them has a bound, whatever names they give themselves.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Take } from "../../core/model/windows.ts";
import { Calls } from "../../plugins/storage/redis/calls.ts";
import { connection, tagOf, type RedisConnection } from "../../plugins/storage/redis/connect.ts";
import { sharedCounters } from "../../plugins/storage/redis/counters.ts";
import { testClock } from "../support/clock.ts";
import { describeRedis, sharedRedis } from "../support/redis-bench.ts";

const MOST = 300;

const take = (key: string, limit = 6): Take => ({
  key,
  sustained: { limit, windowMs: 60_000 },
  burst: { limit, windowMs: 5_000 },
  abuse: { refusals: 3, windowMs: 60_000, suspendMs: 300_000, maxSuspendMs: 3_600_000, forgetMs: 86_400_000 },
});

describeRedis("callers on Redis", {}, () => {
  const server = sharedRedis();
  let connected: RedisConnection;
  let made = 0;
  beforeAll(async () => {
    connected = await connection({ url: server().url }, "callers");
    await connected.client.connect();
  });
  afterAll(() => connected?.client.disconnect());

  function room() {
    const clock = testClock();
    const tag = tagOf(`callers${++made}`);
    const counters = sharedCounters(new Calls(connected.client, tag, clock), () => `${clock.now()} `, MOST);
    const one = async (key: string, limit?: number) => (await counters.take([take(key, limit)]))[0];
    const many = (name: string, count: number, limit?: number) =>
      Promise.all(Array.from({ length: count }, (_, i) => one(`${name}${i}`, limit)));
    const held = async () => (await connected.client.keys(`${tag.replaceAll(/[{}]/g, "?")}:n:*`)).length;
    const endsInMs = (key: string) => connected.client.pttl(`${tag}:n:${key}`);
    return { clock, counters, one, many, held, endsInMs };
  }

  it("are never more than there is room for, and those that are idle soonest are forgotten first", async () => {
    const { clock, one, many, held } = room();
    await many("old", 200);
    await clock.advance(1_000);
    await many("new", 100);
    expect(await held()).toBe(MOST);
    await many("flood", 1_000);
    expect(await held()).toBeLessThanOrEqual(MOST);
    await many("last", 50);
    expect((await one("last49"))?.sustained.remaining).toBe(4);
    expect((await one("old0"))?.sustained.remaining).toBe(5);
  });

  it("that are full or suspended are never forgotten", async () => {
    const { one, many, held } = room();
    await one("full", 1);
    await one("suspended", 1);
    for (let i = 0; i < 3; i++) await one("suspended", 1);
    await many("flood", 2_000);
    expect(await held()).toBeLessThanOrEqual(MOST);
    expect((await one("full", 1))?.code).toBe("RATE_LIMIT_EXCEEDED");
    expect((await one("suspended", 1))?.code).toBe("ABUSE_SUSPEND");
  });

  it("that were suspended are remembered for as long as their strike counts", async () => {
    const { one, endsInMs } = room();
    await one("bad", 1);
    for (let i = 0; i < 3; i++) await one("bad", 1);
    expect(await endsInMs("bad")).toBeGreaterThan(86_000_000);
  });

  it("share one place while all that are held are full: they are slowed, never suspended, and free again soon", async () => {
    const { clock, counters, one, many, held } = room();
    await many("full", MOST, 1);
    const codes = (await Promise.all(Array.from({ length: 20 }, (_, i) => one(`new${i}`, 4)))).map((got) => got?.code);
    expect(codes.filter((code) => code === undefined)).toHaveLength(4);
    expect(codes).not.toContain("ABUSE_SUSPEND");
    expect(await held()).toBe(MOST + 1);
    await clock.advance(60_000);
    const takes = [take("new0", 4)];
    const got = await counters.take(takes);
    expect(got[0]?.sustained.remaining).toBe(3);
    await counters.giveBack(takes, got);
    expect((await one("new0", 4))?.sustained.remaining).toBe(3);
  });
});
