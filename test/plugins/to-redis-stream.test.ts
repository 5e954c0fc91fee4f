/** The Redis stream transport against a real server, which is killed, frozen, full and not there. */
import { expect, it } from "vitest";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import { sendTo, setUp, textOf, whenNotReady } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { redisBus } from "../support/buses/redis-stream.ts";
import { startCluster, type RedisServer } from "../support/redis.ts";
import { until } from "../support/until.ts";

describeBus(redisBus, (stage) => {
  const { open } = stage;

  it("adds nothing to another database than the one of its url", async () => {
    const transport = await setUp(toRedisStream({ name: "bus", url: `${stage.far.server.url}/99` }));
    expect(await whenNotReady(transport)).toMatch(/^is not connected(?:: |$)/);
    await until(() => transport.readiness?.() === "does not have the database of the url");
    expect(await sendTo(transport, "redis-stream://bus/elsewhere").then(textOf)).toContain("bus is away");
    expect(await stage.far.client.exists("elsewhere")).toBe(0);
    await transport.dispose();
  });

  it("leaves out a header that is named like the field of the body", async () => {
    const headers = { event: "not the body", "x-own": "1" };
    await sendTo(await open(), "redis-stream://bus/named", { headers });
    const [entry] = await stage.far.arrived("redis-stream://bus/named", 1);
    expect(entry?.headers).toEqual({ "x-own": "1" });
    expect(Buffer.from(entry?.body ?? "").toString()).toContain('"evt_1"');
  });

  it("keeps about as many entries as it is told", async () => {
    const transport = await open({ maxLen: 100 });
    await Promise.all(Array.from({ length: 1_000 }, () => sendTo(transport, "redis-stream://bus/short")));
    expect(await stage.far.client.xlen("short")).toBeLessThan(300);
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
    await stage.far.client.config("SET", "maxmemory", "1");
    expect(textOf(await sendTo(transport, "redis-stream://bus/full"))).toBe("unavailable the connection bus is away");
    expect(transport.readiness?.()).toBe("takes nothing (OOM)");
    await stage.far.client.config("SET", "maxmemory", "0");
    expect(textOf(await sendTo(transport, "redis-stream://bus/full"))).toMatch(/^200/);
    expect(transport.readiness?.()).toBeUndefined();
  });
});
