/** A Redis stream as an upstream, with the stream of dead letters that the source makes. */
import { Redis } from "ioredis";
import { fromRedisStream } from "../../../plugins/source/redis-stream.ts";
import type { Upstream } from "../message-laws.ts";
import { startRedis } from "../redis.ts";

export interface RedisUpstream extends Upstream {
  readonly url: string;
  readonly client: Redis;
  /** Entries that were not handed out. */
  lag(stream: string): Promise<number>;
}

export async function redisUpstream(): Promise<RedisUpstream> {
  const server = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
  const client = new Redis(server.url, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on("error", () => {});
  let count = 0;
  /** Returns what the group of a stream has not handed out, and not been told of; all entries where it is not made yet. */
  async function group(stream: string): Promise<{ readonly lag: number; readonly pending: number }> {
    const [made] = (await client.call("XINFO", "GROUPS", stream).catch(() => [])) as readonly (readonly unknown[])[];
    if (made === undefined) return { lag: await client.xlen(stream), pending: 0 };
    const of = (name: string): unknown => made[made.indexOf(name) + 1];
    // A server that was killed may not know the lag any more.
    const unread = async () => (await client.xrange(stream, `(${String(of("last-delivered-id"))}`, "+")).length;
    return { lag: of("lag") === null ? await unread() : Number(of("lag")), pending: Number(of("pending")) };
  }
  return {
    server,
    port: server.port,
    url: server.url,
    client,
    from: fromRedisStream,
    factory: "fromRedisStream",
    make: async () => `orders${++count}`,
    options: (stream, maxInFlight, port = server.port) => ({
      ...{ url: `redis://127.0.0.1:${port}`, stream, consumer: "test" },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    send(stream, payloads, headers = {}) {
      const some = client.pipeline();
      for (const one of payloads) some.xadd(stream, "*", "event", one, ...Object.entries(headers).flat());
      return some.exec();
    },
    async left(stream) {
      const { lag, pending } = await group(stream);
      return lag + pending;
    },
    lag: async (stream) => (await group(stream)).lag,
    async dead(stream) {
      const entries = await client.xrange(`${stream}:dead`, "-", "+").catch(() => []);
      return entries.map(([, fields]) => {
        const of = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
        return { payload: of("event"), code: of("relay-code") };
      });
    },
    async refuseDead(stream) {
      await client.lpush(`${stream}:dead`, "a list of somebody else's");
      return () => client.del(`${stream}:dead`);
    },
    async [Symbol.asyncDispose]() {
      client.disconnect();
      await server[Symbol.asyncDispose]();
    },
  };
}
