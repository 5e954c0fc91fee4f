/** Redis streams that are on the disk before an entry is acknowledged. */
import { Redis } from "ioredis";
import { toRedisStream } from "../../../plugins/transport/redis-stream.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { needs } from "../needs.ts";
import { startRedis, type RedisServer } from "../redis.ts";

interface FarRedis extends FarBus {
  readonly client: Redis;
  readonly server: RedisServer;
}

export const redisBus: BusHarness<FarRedis> = {
  system: "Redis",
  missing: needs("redis"),
  make: toRedisStream,
  options: (at) => ({ name: "bus", url: `redis://${at}` }),
  everyOption: { name: "bus", url: "rediss://:secret@redis:6379/1", maxLen: 10, tls: { caFile: "ca" } },
  wrongOptions: [
    [{ url: { secretFrom: { env: "BUS_URL" } } }],
    [{ name: "B", url: "http://:s3cret@x", maxLen: 0 }, "name", "url", "maxLen"],
  ],
  urls: {
    rule: "the key of a stream",
    right: ["deposits", "a.b:c_d-e", "0"],
    wrong: ["", "a/b", "{relay}:r:event", "a b", "a?b", "a%20b", "-", "x".repeat(201)],
  },
  place: /^200 stream deposits:\w+, entry \d+-\d+$/,
  refused: ["redis-stream://bus/taken", /^error WRONGTYPE/],
  async start() {
    const server = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
    const client = new Redis(server.url);
    client.on("error", () => {});
    await client.set("taken", "a text");
    async function arrived(stream: string): Promise<readonly Arrived[]> {
      const entries = (await client.callBuffer("XRANGE", stream, "-", "+")) as [Buffer, Buffer[]][];
      return entries.map(([, flat]) => {
        const names = flat.filter((_, i) => i % 2 === 0).map(String);
        const at = names.indexOf("event");
        const all = names.map((name, i) => [name, String(flat[2 * i + 1])]).toSpliced(at, 1);
        const { messageId = "", ...headers } = Object.fromEntries(all) as Record<string, string>;
        return { headers, messageId, body: flat[2 * at + 1] as Buffer };
      });
    }
    return {
      at: `127.0.0.1:${server.port}`,
      client,
      server,
      destination: (name) => Promise.resolve(`redis-stream://bus/deposits:${name}`),
      arrived: (url, least) => atLeast(least, () => arrived(url.slice("redis-stream://bus/".length))),
      async [Symbol.asyncDispose]() {
        client.disconnect();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
