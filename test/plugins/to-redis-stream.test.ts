/** The Redis stream transport against a real server, which is killed, frozen, full and not there. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Transport } from "../../core/ports/transport.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import type { ToRedisStreamOptions } from "../../plugins/transport/redis-stream/transport.ts";
import { describeTransport } from "../conformance/transport.ts";
import { busBench, keptLog, NO_BUS_CAN, sendTo, setUp, textOf, whenNotReady, whenReady } from "../support/bus-bench.ts";
import { needs } from "../support/needs.ts";
import { freePort } from "../../tools/free-port.ts";
import { until } from "../support/until.ts";
import { startCluster, startRedis, type RedisServer } from "../support/redis.ts";

const missing = needs("redis");

describe.skipIf(missing !== undefined)(`the Redis stream transport${missing ? ` (skipped: ${missing})` : ""}`, () => {
  let redis: RedisServer;
  let client: Redis;
  let count = 0;
  const opened: Transport[] = [];

  beforeAll(async () => {
    redis = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
    client = new Redis(redis.url);
    client.on("error", () => {});
    await client.set("taken", "a text");
  });
  afterAll(async () => {
    client.disconnect();
    await Promise.all(opened.map((transport) => transport.dispose()));
    await redis[Symbol.asyncDispose]();
  });

  const open = async (more: Partial<ToRedisStreamOptions> = {}): Promise<Transport> => {
    const transport = await setUp(toRedisStream({ name: "bus", url: redis.url, ...more }));
    opened.push(transport);
    await whenReady(transport);
    return transport;
  };

  /** Entries as fields by name; the body as bytes. */
  async function entries(stream: string): Promise<readonly { fields: Record<string, string>; body: Buffer }[]> {
    const found = (await client.callBuffer("XRANGE", stream, "-", "+")) as [Buffer, Buffer[]][];
    return found.map(([, flat]) => {
      const fields: Record<string, string> = {};
      let body: Buffer = Buffer.alloc(0);
      for (let i = 0; i < flat.length; i += 2) {
        const name = String(flat[i]);
        if (name === "event") body = flat[i + 1] as Buffer;
        else fields[name] = String(flat[i + 1]);
      }
      return { fields, body };
    });
  }

  describe("the law of transports", () => {
    describeTransport(it, {
      cannot: NO_BUS_CAN,
      open() {
        const stream = `law:${++count}`;
        return busBench({
          port: redis.port,
          plugin: (port) => toRedisStream({ name: "bus", url: `redis://127.0.0.1:${port}` }),
          url: `redis-stream://bus/${stream}`,
          nowhere: "redis-stream://bus/taken",
          read: async () => (await entries(stream)).map(({ fields, body }) => ({ headers: fields, body })),
        });
      },
    });
  });

  it("adds nothing to another database than the one of its url", async () => {
    const transport = await setUp(toRedisStream({ name: "bus", url: `${redis.url}/99` }));
    opened.push(transport);
    expect(await whenNotReady(transport)).toBe("is not connected");
    await until(() => transport.readiness?.() === "does not have the database of the url");
    expect(await sendTo(transport, "redis-stream://bus/elsewhere").then(textOf)).toContain("bus is away");
    expect(await entries("elsewhere")).toEqual([]);
  });

  it("adds an entry with the body, the headers as they are, and the message id", async () => {
    const transport = await open();
    const headers = { "Content-Type": "application/json", "webhook-signature": "v1,abc=", event: "not the body" };
    const reply = await sendTo(transport, "redis-stream://bus/deposits:paid", { headers, messageId: "dlv_1" });
    expect(textOf(reply)).toMatch(/^200 stream deposits:paid, entry \d+-\d+$/);
    const { event: _, ...sent } = headers;
    expect(await entries("deposits:paid")).toEqual([
      { fields: { ...sent, messageId: "dlv_1" }, body: Buffer.from('{"id":"evt_1","keyId":"key_1","data":{"n":1}}') },
    ]);
  });

  it("keeps about as many entries as it is told", async () => {
    const transport = await open({ maxLen: 100 });
    await Promise.all(Array.from({ length: 1_000 }, () => sendTo(transport, "redis-stream://bus/short")));
    expect(await client.xlen("short")).toBeLessThan(300);
  });

  it("says of a key that is no stream that it will not do", async () => {
    const transport = await open();
    const reply = await sendTo(transport, "redis-stream://bus/taken");
    expect(reply).toMatchObject({ kind: "error", error: "protocol", detail: expect.stringMatching(/^WRONGTYPE/) });
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("names no node of a cluster that has the stream, to a subscriber", async () => {
    await using servers = new AsyncDisposableStack();
    const [node] = (await startCluster()).map((one) => servers.use(one));
    const transport = await open({ url: (node as RedisServer).url });
    const replies = await Promise.all(
      ["a", "b", "c", "d", "e", "f", "g", "h"].map((stream) => sendTo(transport, `redis-stream://bus/${stream}`)),
    );
    const said = replies.map(textOf);
    expect(said.filter((text) => text.includes("MOVED"))).not.toEqual([]);
    expect(said.join()).not.toContain("127.0.0.1");
  });

  it("is away while Redis is full, and back when it is not", async () => {
    const transport = await open();
    await client.config("SET", "maxmemory", "1");
    expect(textOf(await sendTo(transport, "redis-stream://bus/full"))).toBe("unavailable the connection bus is away");
    expect(transport.readiness?.()).toBe("takes nothing (OOM)");
    await client.config("SET", "maxmemory", "0");
    expect(textOf(await sendTo(transport, "redis-stream://bus/full"))).toMatch(/^200/);
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("is away while the server is killed, ends what is under way, comes back by itself, and says both", async () => {
    const { log, said } = keptLog();
    const transport = await setUp(toRedisStream({ name: "bus", url: redis.url }), { log });
    opened.push(transport);
    await whenReady(transport);
    redis.pause();
    const sending = sendTo(transport, "redis-stream://bus/killed");
    await redis.kill();
    expect(textOf(await sending)).toBe("unavailable the connection bus is away");
    expect(await whenNotReady(transport)).toBe("is not connected");
    expect(await sendTo(transport, "redis-stream://bus/killed")).toMatchObject({ kind: "unavailable" });
    await redis.start();
    await whenReady(transport);
    expect(textOf(await sendTo(transport, "redis-stream://bus/killed"))).toMatch(/^200/);
    expect(said).toContain("warn a connection to Redis failed");
    expect(said.filter((line) => line === "info the connection to Redis is there again")).toHaveLength(1);
    expect(said.at(-1)).toBe("info the connection to Redis is there again");
  });

  it("starts without a server, and says so", async () => {
    const transport = await setUp(toRedisStream({ name: "bus", url: `redis://127.0.0.1:${await freePort()}` }));
    opened.push(transport);
    expect(transport.readiness?.()).toBe("is not connected");
    expect(await sendTo(transport, "redis-stream://bus/a")).toMatchObject({ kind: "unavailable" });
  });

  it("takes the key of a stream for a URL and nothing else", async () => {
    const transport = await open();
    for (const good of ["deposits", "a.b:c_d-e", "0"])
      expect(await transport.problems?.(`redis-stream://bus/${good}`), good).toBeUndefined();
    for (const bad of ["", "a/b", "{relay}:r:event", "a b", "a?b", "a%20b", "-", "x".repeat(201)]) {
      expect(await transport.problems?.(`redis-stream://bus/${bad}`), bad).toMatch(/^must be redis-stream:\/\/bus\//);
      expect(await sendTo(transport, `redis-stream://bus/${bad}`), bad).toMatchObject({ error: "protocol" });
    }
  });
});

it("judges its options before the start, and shows no password", () => {
  const problems = (options: object) => toRedisStream(options as ToRedisStreamOptions).problems;
  expect(problems({ name: "bus", url: "rediss://:secret@redis:6379/1", maxLen: 10 })).toEqual([]);
  expect(problems({ name: "bus", url: { secretFrom: { env: "BUS_URL" } } })).toEqual([]);
  expect(problems({ name: "B", url: "http://:secret@x", maxLen: 0 })?.map(({ path }) => path)).toEqual([
    "name",
    "url",
    "maxLen",
  ]);
  expect(JSON.stringify(problems({ name: "bus", url: "http://:secret@x" }))).not.toContain("secret@");
});
