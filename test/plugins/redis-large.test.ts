// Large commits on Redis: with replicas, beside other nodes, and when they fail.
import { expect, it } from "vitest";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import type { RedisOptions } from "../../plugins/storage/redis.ts";
import { claim, due, endOf, enqueue, lineOf } from "../conformance/queue.ts";
import { startReplica } from "../support/redis.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { describeRedis, eachBench, SAFE } from "../support/redis-bench.ts";

const clock = systemClock();
const bench = eachBench();
const open = (options: RedisOptions): Promise<Storage> => bench().open(options);

/** As a batch of 1,000 events on 50 subscriptions writes them. */
const rows = (n: number, count = 51_000): Change[] =>
  Array.from({ length: count }, (_, i) => lineOf(due(`${n}x${i % 50}`, i, clock.now() + 3_600_000)));
const fault = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: { fault?: string; name: string }) => error.fault ?? error.name,
  );

describeRedis("large commits on Redis", { timeout: 240_000 }, () => {
  it("are acknowledged when the replicas have them", async () => {
    const master = await bench().server(SAFE);
    const replica = bench().keep(await startReplica(master));
    const storage = await open({ url: master.url, replicas: 1 });
    const all = rows(1);
    await storage.commit(all);
    expect(await replica.command("ZCARD", "{relay}:i:due:")).toBe(`:${all.length}\r\n`);
    const both = await Promise.all([rows(2, 15_000), rows(3, 15_000)].map((changes) => fault(storage.commit(changes))));
    expect(both).toEqual([undefined, undefined]);
    expect(await replica.command("ZCARD", "{relay}:i:due:")).toBe(`:${all.length + 30_000}\r\n`);
  });

  it("hold up no delivery for good: what is due is claimed, extended and settled beside them", async () => {
    const server = await bench().server({});
    const storage = await open({ url: server.url });
    await enqueue(storage, ...Array.from({ length: 40 }, (_, i) => due("a", i, clock.now())));
    let committing = 0;
    const large = Promise.all(
      Array.from({ length: 4 }, async (_, n) => {
        committing++;
        await storage.commit(rows(n));
        committing--;
      }),
    );
    let beside = 0;
    for (let left = 40; left > 0;) {
      for (const lease of await claim(storage.queue, { limit: 5 })) {
        expect(await storage.queue.extend(lease)).toBe(true);
        await storage.queue.settle(lease, [endOf(lease)]);
        if (committing > 0) beside++;
        left--;
      }
    }
    await large;
    expect(beside).toBeGreaterThan(0);
  });

  it("that are too large for the memory fail alone, and leave nothing behind", async () => {
    const server = await bench().server({ maxmemory: "12mb", "maxmemory-policy": "noeviction" });
    const storage = await open({ url: server.url });
    // Full before it begins: the first thing that it writes is refused.
    for (
      let i = 0;
      (await fault(storage.commit([{ op: "put", key: `meta:${i}`, value: "x".repeat(100_000) }]))) !== "full";
      i++
    );
    expect(await fault(storage.commit(rows(1)))).toBe("full");
    expect(await storage.range("due:")).toEqual([]);
    expect(await fault(storage.commit([{ op: "delete", key: "meta:0" }]))).toBeUndefined();
  });

  it("are made once though the answer was lost", async () => {
    const server = await bench().server({});
    const shim = bench().keep(await tcpShim(server.port));
    const storage = await open({ url: `redis://127.0.0.1:${shim.port}` });
    // The connection for large ones stands from here on.
    await storage.commit(rows(1, 5_000));
    shim.swallowReplies();
    // Conditional: a second time it would be refused.
    const changes = rows(2, 15_000).map((change): Change => ({
      ...(change as { op: "put"; key: string; value: string }),
      if: null,
    }));
    const committing = fault(storage.commit(changes));
    while (!(await server.command("ZCARD", "{relay}:i:due:")).startsWith(":20000"))
      await new Promise((resolve) => setTimeout(resolve, 20));
    shim.cut();
    shim.pass();
    expect(await committing).toBeUndefined();
    expect(await server.command("ZCARD", "{relay}:i:due:")).toBe(":20000\r\n");
  });
});
