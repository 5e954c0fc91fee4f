// fromRedisStream against real servers: what is acknowledged when, and what becomes of the rest.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Accept } from "../../core/ports/source.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { fromRedisStream } from "../../plugins/source/redis-stream.ts";
import type { FromRedisStreamOptions } from "../../plugins/source/redis-stream/source.ts";
import type { TestClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { testFolder } from "../support/folder.ts";
import { desk, paid } from "../support/intake.ts";
import { expectNothingLost } from "../support/ledger.ts";
import { needs } from "../support/needs.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { describeMessageSource } from "../support/message-laws.ts";
import { stopWhileSilent } from "../support/message-plugin.ts";
import { describePolledSource } from "../support/polled-source.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";

const missing = needs("redis");
let server: RedisServer;
let client: Redis;
beforeAll(async () => {
  if (missing !== undefined) return;
  server = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
  client = new Redis(server.url);
  client.on("error", () => {});
});
afterAll(async () => {
  client?.disconnect();
  await server?.[Symbol.asyncDispose]();
});

let streams = 0;
const info = { durability: "fsync" } as const;
const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

/** Entries of the group that are not acknowledged, delivered or not. */
async function left(stream: string): Promise<number> {
  const groups = (await client.call("XINFO", "GROUPS", stream).catch(() => [])) as readonly (readonly unknown[])[];
  const of = (name: string): number => Number(groups[0]?.[groups[0].indexOf(name) + 1] ?? 0);
  return groups.length === 0 ? await client.xlen(stream) : of("pending") + of("lag");
}

async function bench(over: Partial<FromRedisStreamOptions> & { readonly clock?: TestClock } = {}) {
  const { clock, ...options } = over;
  const stream = options.stream ?? `orders${++streams}`;
  const [log, metrics] = [quietLog(), quietMetrics()];
  const ctx = context({
    clock: clock ?? systemClock(),
    log,
    metrics,
    secret: () => (typeof options.url === "string" ? options.url : server.url),
  });
  const source = await fromRedisStream({ url: server.url, stream, consumer: "test", ...options }).setup(ctx);
  return {
    stream,
    source,
    log,
    metrics,
    add: (text: string, ...more: readonly string[]) => client.xadd(stream, "*", "event", text, ...more),
    done: () => until(async () => (await left(stream)) === 0),
    [Symbol.asyncDispose]: () => source.stop(),
  };
}

/** One that stores with the relay's own publisher. */
async function started(over: Partial<FromRedisStreamOptions> = {}) {
  const made = await bench(over);
  const { intake, told } = desk();
  await made.source.start(intake.accept, info);
  return { ...made, told };
}

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

it("holds up no end of the process once it is stopped", { timeout: 60_000 }, async ({ skip }) => {
  skip(missing !== undefined, missing);
  const args = [new URL("../../", import.meta.url).href, server.url, `orders${++streams}`];
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", STOPPED, ...args]);
  expect(Number(stdout)).toBeLessThan(2_000);
});

describe.skipIf(missing !== undefined)("fromRedisStream keeps the law of a source:", () => {
  describePolledSource(async (clock) => {
    const made = await bench({ clock });
    return {
      source: made.source,
      add: made.add,
      async learned() {
        if (clock.sleeping().length > 0) return "later";
        // It stands among the dead ones before it is acknowledged: whether it is left is asked first.
        if ((await left(made.stream)) > 0) return undefined;
        return (await client.xlen(`${made.stream}:dead`)) > 0 ? "refused" : "acknowledged";
      },
    };
  });
});

describe.skipIf(missing !== undefined)("fromRedisStream keeps the law of a source of messages:", () => {
  describeMessageSource({
    make: async () => `orders${++streams}`,
    read: (stream) => fromRedisStream({ url: server.url, stream, maxInFlight: 1 }),
    send: (stream, payload) => client.xadd(stream, "*", "event", payload),
    remake: (stream) => client.del(stream),
  });
});

describe.skipIf(missing !== undefined)("a stream", () => {
  it("is read from its first entry, and each event has the id of its entry", async () => {
    const made = await bench();
    const id = await made.add(event());
    const { intake, told } = desk();
    await using _ = made;
    await made.source.start(intake.accept, info);
    await made.done();
    await made.add(`[${event()},${event({ id: "mine" })}]`);
    await made.done();
    expect(told.map((one) => one.id).slice(0, 1)).toEqual([`${made.stream}-${id}`]);
    expect(told.map((one) => one.id).slice(1)).toEqual([expect.stringMatching(/-\d+-\d+:0$/), "mine"]);
    expect(made.source.readiness?.()).toBeUndefined();
  });

  it("is not read from another database than the one of its url", async () => {
    await using made = await started({ url: `${server.url}/99` });
    await made.add(event());
    await until(() => made.log.lines.some(({ fields }) => JSON.stringify(fields).includes("DB index")));
    expect(made.source.readiness?.()).toBeDefined();
    expect(made.told).toEqual([]);
    expect(await client.xlen(made.stream)).toBe(1);
  });

  it("may hold CloudEvents in both modes, and messages for map", async () => {
    await using made = await started({ keyId: "key_1" });
    await made.add(JSON.stringify({ specversion: "1.0", id: "ce", source: "/", type: "a.b", data: 1 }));
    const attributes = ["ce_specversion", "1.0", "ce_id", "bin", "ce_source", "/", "ce_type", "a.c"];
    await made.add("[1]", ...attributes, "content-type", "application/json");
    await made.done();
    await using mapped = await started({
      map: ({ headers, json }) => ({ type: "x", keyId: headers["tenant"], data: json() }),
    });
    await mapped.add('{"n":1}', "Tenant", "key_3");
    await mapped.done();
    expect(made.told.map(({ id, type }) => [id, type])).toEqual([
      ["ce:df7e940f72aa93cbcb6d", "a.b"],
      ["bin:df7e940f72aa93cbcb6d", "a.c"],
    ]);
    expect(mapped.told[0]).toMatchObject({ keyId: "key_3", body: expect.stringContaining('"data":{"n":1}}') });
  });

  it("loses its bad entries to the dead stream, with their fields and the reason, and no other", async () => {
    await using made = await started();
    await made.add(event());
    const bad = await made.add("no JSON", "tenant", "x");
    await client.xadd(made.stream, "*", "other", "field");
    await made.add(event());
    await made.done();
    expect(made.told).toHaveLength(2);
    const dead = await client.xrange(`${made.stream}:dead`, "-", "+");
    expect(dead.map(([, fields]) => fields)).toEqual([
      expect.arrayContaining(["event", "no JSON", "tenant", "x", "relay-code", "INVALID_JSON", "relay-entry", bad]),
      expect.arrayContaining(["other", "field", "relay-code", "INVALID_JSON"]),
    ]);
    expect(made.metrics.counted.get("source_dead_lettered redisStream")).toBe(2);
  });

  it("keeps a bad entry that its dead stream does not take", async () => {
    await using made = await started();
    await client.lpush(`${made.stream}:dead`, "a list of somebody else's");
    await made.add("no JSON");
    await until(() => made.log.lines.some(({ message }) => message.includes("upstream was not told")));
    expect(await left(made.stream)).toBe(1);
    await client.del(`${made.stream}:dead`);
  });

  it("gives what this consumer and others have left, and none of it makes a second event", async () => {
    const made = await bench({ claimAfterMs: 1_000 });
    for (const id of ["1-1", "1-2", "1-3"]) await client.xadd(made.stream, id, "event", event());
    await client.xgroup("CREATE", made.stream, "relay", "0");
    const { intake, told } = desk();
    // Stored, and then the node died before it could acknowledge.
    const [text, defaults] = [event(), { id: `${made.stream}-1-2` }];
    await intake.accept({ publications: [{ text, path: "", defaults }], source: "redisStream" });
    await client.xreadgroup("GROUP", "relay", "test", "COUNT", 1, "STREAMS", made.stream, ">");
    await client.xreadgroup("GROUP", "relay", "gone", "COUNT", 2, "STREAMS", made.stream, ">");
    await using _ = made;
    await made.source.start(intake.accept, info);
    await made.done();
    expect(told.map(({ id }) => id).toSorted()).toEqual(["1-1", "1-2", "1-3"].map((id) => `${made.stream}-${id}`));
    expect(made.metrics.counted.get("source_redelivered redisStream")).toBe(3);
  });

  it("goes on where it was when Redis is killed and comes back", async () => {
    await using own = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
    const writer = new Redis(own.url);
    writer.on("error", () => {});
    const source = await fromRedisStream({ url: own.url, stream: "s" }).setup(
      context({ clock: systemClock(), secret: () => own.url }),
    );
    const { intake, told } = desk();
    let killed: Promise<void> | undefined;
    const accept: Accept = async (request) => {
      const answer = await intake.accept(request);
      // Between the commit and the acknowledgement, once.
      await (killed ??= own.kill());
      return answer;
    };
    await writer.xadd("s", "*", "event", event({ data: 1 }));
    await source.start(accept, info);
    await until(() => told.length === 1);
    await killed;
    await until(() => source.readiness?.()?.includes("ECONNREFUSED") === true);
    await own.start();
    const again = new Redis(own.url);
    await again.xadd("s", "*", "event", event({ data: 2 }));
    await until(async () => ((await again.xpending("s", "relay").catch(() => [1])) as unknown[])[0] === 0);
    await until(() => told.length === 2 && source.readiness?.() === undefined);
    await source.stop();
    for (const one of [writer, again]) one.disconnect();
    expect(told.map(({ body }) => (JSON.parse(body) as { data: number }).data)).toEqual([1, 2]);
  });

  it("is stored once and whole by a relay that is killed again and again", async () => {
    const total = 9_000;
    const stream = `ledger${++streams}`;
    for (let at = 0; at < total; at += 1_000) {
      const some = client.pipeline();
      for (let i = at; i < at + 1_000; i++) some.xadd(stream, "*", "event", event({ data: i }));
      await some.exec();
    }
    const url = JSON.stringify(server.url);
    await expectNothingLost({
      folder: testFolder(),
      source: `fromRedisStream({ url: ${url}, stream: "${stream}" })`,
      imports: ["fromRedisStream"],
      total,
      kills: 3,
      left: () => left(stream),
    });
  }, 240_000);

  it("leaves no connection behind when it is stopped while it connects", async () => {
    await using own = await startRedis();
    await using shim = await tcpShim(Number(new URL(own.url).port));
    const watcher = new Redis(own.url);
    const others = async () =>
      String(await watcher.client("LIST"))
        .trim()
        .split("\n").length - 1;
    shim.swallow();
    const { source } = await bench({ url: own.url.replace(/:\d+/, `:${shim.port}`) });
    await source.start(desk().intake.accept, info);
    await until(async () => (await others()) === 2);
    await source.stop();
    // The server answers after all.
    shim.pass();
    await until(async () => (await others()) === 0);
    watcher.disconnect();
  });

  it("stops soon, also while its server does not answer", async () => {
    const stream = `paused${++streams}`;
    await using shim = await tcpShim(Number(new URL(server.url).port));
    const source = fromRedisStream({ url: server.url.replace(/:\d+/, `:${shim.port}`), stream, consumer: "test" });
    const send = () => client.xadd(stream, "*", "event", event());
    // Sooner than the acknowledgement under way is given up.
    expect(await stopWhileSilent(source, { send, silence: shim.swallow })).toBeLessThan(14_000);
  });
});

describe("the options of fromRedisStream", () => {
  it("are checked", () => {
    const wrong = { url: "http://x", stream: "", group: "", maxInFlight: 0, claimAfterMs: 5, nonsense: 1, keyId: "é" };
    const paths = fromRedisStream(wrong as unknown as FromRedisStreamOptions).problems?.map(({ path }) => path);
    expect(paths).toEqual(["nonsense", "keyId", "url", "stream", "group", "claimAfterMs", "maxInFlight"]);
    expect(fromRedisStream(undefined as unknown as FromRedisStreamOptions).problems).toHaveLength(2);
    expect(fromRedisStream({ url: "rediss://x", stream: "s", name: "my-stream-2" }).problems).toEqual([]);
  });
});
