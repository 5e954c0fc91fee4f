// fromRedisStream against real servers: what is acknowledged when, and what becomes of the rest.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { fromRedisStream } from "../../plugins/source/redis-stream.ts";
import type { FromRedisStreamOptions } from "../../plugins/source/redis-stream/source.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";
import { redisUpstream, type RedisUpstream } from "../support/upstreams/redis.ts";

const fsync = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

/** Starts a source, waits until its read is blocked, stops it, and prints how long the process still lasts, ms. */
const STOPPED = `
  const [root, url, stream] = process.argv.slice(1);
  const { fromRedisStream } = await import(root + "plugins/source/redis-stream.ts");
  const { pluginContext } = await import(root + "test/support/plugin-context.ts");
  const { systemClock } = await import(root + "core/runtime/clock.ts");
  const { Redis } = await import("ioredis");
  const asking = new Redis(url);
  const source = await fromRedisStream({ url, stream }).setup(pluginContext(systemClock(), "/", { secret: () => url }));
  await source.start(() => Promise.resolve([]), { durability: "fsync" });
  while (!/ flags=b .* cmd=xreadgroup /.test(await asking.client("LIST"))) await new Promise((soon) => setTimeout(soon, 20));
  asking.disconnect();
  await source.stop();
  const from = performance.now();
  process.on("exit", () => console.log(performance.now() - from));`;

describeMessageSource({
  name: "Redis",
  missing: needs("redis"),
  start: redisUpstream,
  differences: (redis) => ({
    firstId: (stream) => new RegExp(`^${stream}-\\d+-0$`),
    cloudPrefix: "ce_",
    waiting: (stream) => redis().lag(stream),
    remake: { drop: (stream) => redis().client.del(stream), add: () => Promise.resolve() },
    // Sooner than the acknowledgement under way is given up.
    stopsWithinMs: 14_000,
  }),
  more: ownLaws,
});

function ownLaws(redis: () => RedisUpstream): void {
  async function started(more: Partial<FromRedisStreamOptions> = {}, stream?: string) {
    const name = stream ?? (await redis().make());
    const plugin = fromRedisStream({ url: redis().url, stream: name, consumer: "test", ...more });
    const made = await openSource(plugin);
    await made.source.start(made.desk.intake.accept, fsync);
    return {
      ...made,
      stream: name,
      add: (text: string, ...fields: readonly string[]) => redis().client.xadd(name, "*", "event", text, ...fields),
      done: () => until(async () => (await redis().left(name)) === 0),
      [Symbol.asyncDispose]: () => made.source.stop(),
    };
  }

  it("holds up no end of the process once it is stopped", { timeout: 60_000 }, async () => {
    const args = [new URL("../../", import.meta.url).href, redis().url, await redis().make()];
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", STOPPED, ...args]);
    expect(Number(stdout)).toBeLessThan(2_000);
  });

  it("reads lists of events, and messages for map with the other fields of the entry", async () => {
    await using made = await started();
    await made.add(`[${event()},${event({ id: "mine" })}]`);
    await made.done();
    expect(made.desk.told.map(({ id }) => id)).toEqual([expect.stringMatching(/-\d+-\d+:0$/), "mine"]);
    await using mapped = await started({
      map: ({ headers, json }) => ({ type: "x", keyId: headers["tenant"], data: json() }),
    });
    await mapped.add('{"n":1}', "Tenant", "key_3");
    await mapped.done();
    expect(mapped.desk.told[0]).toMatchObject({ keyId: "key_3", body: expect.stringContaining('"data":{"n":1}}') });
  });

  it("shows how many entries wait behind those that cannot be stored", async () => {
    const stream = await redis().make();
    for (let i = 0; i < 3; i++) await redis().client.xadd(stream, "*", "event", event({ data: i }));
    const made = await openSource(fromRedisStream({ url: redis().url, stream, consumer: "test", maxInFlight: 1 }));
    const refuse = () => Promise.reject(new Problem("STORAGE_FULL", "full"));
    await made.source.start(refuse, fsync);
    await until(() => (made.metrics.shown.get("relay_source_backlog redisStream") ?? 0) >= 2);
    await made.source.stop();
  });

  it("does not read from another database than the one of its url", async () => {
    await using made = await started({ url: `${redis().url}/99` });
    await made.add(event());
    await until(() => made.log.lines.some(({ fields }) => JSON.stringify(fields).includes("DB index")));
    expect(made.source.readiness?.()).toBeDefined();
    expect(made.desk.told).toEqual([]);
    expect(await redis().client.xlen(made.stream)).toBe(1);
  });

  it("moves bad entries to the dead stream with all their fields and where they stood", async () => {
    await using made = await started();
    const bad = await made.add("no JSON", "tenant", "x");
    await redis().client.xadd(made.stream, "*", "other", "field");
    await made.done();
    const dead = await redis().client.xrange(`${made.stream}:dead`, "-", "+");
    expect(dead.map(([, fields]) => fields)).toEqual(
      expect.arrayContaining([
        expect.arrayContaining(["event", "no JSON", "tenant", "x", "relay-code", "INVALID_JSON", "relay-entry", bad]),
        expect.arrayContaining(["other", "field", "relay-reason", 'The entry has no field "event".']),
      ]),
    );
  });

  it("takes over what this consumer and others have left, and makes no second event of it", async () => {
    const { client } = redis();
    const stream = await redis().make();
    for (const id of ["1-1", "1-2", "1-3"]) await client.xadd(stream, id, "event", event());
    await client.xgroup("CREATE", stream, "relay", "0");
    const { source, desk, metrics } = await openSource(
      fromRedisStream({ url: redis().url, stream, consumer: "test", claimAfterMs: 1_000 }),
    );
    // Stored, and then the node died before it could acknowledge.
    const [text, defaults] = [event(), { id: `${stream}-1-2` }];
    await desk.intake.accept({ publications: [{ text, path: "", defaults }], source: "redisStream" });
    await client.xreadgroup("GROUP", "relay", "test", "COUNT", 1, "STREAMS", stream, ">");
    await client.xreadgroup("GROUP", "relay", "gone", "COUNT", 2, "STREAMS", stream, ">");
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await redis().left(stream)) === 0);
    await source.stop();
    expect(desk.told.map(({ id }) => id).toSorted()).toEqual(["1-1", "1-2", "1-3"].map((id) => `${stream}-${id}`));
    expect(metrics.counted.get("source_redelivered redisStream")).toBe(3);
  });

  it("leaves no connection behind when it is stopped while it connects", async () => {
    await using own = await redisUpstream();
    await using shim = await tcpShim(own.port);
    const others = async () =>
      String(await own.client.client("LIST"))
        .trim()
        .split("\n").length - 1;
    shim.swallow();
    const { source, desk } = await openSource(fromRedisStream(own.options("s", 1, shim.port) as never));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await others()) === 2);
    await source.stop();
    // The server answers after all.
    shim.pass();
    await until(async () => (await others()) === 0);
  });
}
