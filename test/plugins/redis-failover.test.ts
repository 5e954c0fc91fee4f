// A replica becomes master without the last commits: nobody goes on by what was lost.
import { expect, it } from "vitest";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { claim, due, enqueue } from "../conformance/queue.ts";
import { subscription } from "../support/intake.ts";
import { startReplica, type RedisServer } from "../support/redis.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";
import { describeRedis, eachBench } from "../support/redis-bench.ts";

const clock = systemClock();
const SUB = subscription("a");
const stored = (sub: Subscription): Change => ({
  op: "put",
  key: SUBSCRIPTION.key(sub),
  value: JSON.stringify(sub),
});

const bench = eachBench();
const open = (port: number): Promise<Storage> => bench().open({ url: `redis://127.0.0.1:${port}` });
/** Until the replica has all that the master has. */
async function caughtUp(master: RedisServer, replica: RedisServer): Promise<void> {
  const offset = async (server: RedisServer, field: string): Promise<string | undefined> =>
    new RegExp(`${field}:(\\d+)`).exec(await server.command("INFO", "replication"))?.[1];
  await until(
    async () => (await offset(master, "master_repl_offset")) === (await offset(replica, "slave_repl_offset")),
  );
}

describeRedis("redis() after a failover that lost commits", { timeout: 240_000 }, () => {
  it("reads a subscription again whose change was lost, though as many changes were made since", async () => {
    const master = await bench().server({});
    const shim = bench().keep(await tcpShim(master.port));
    const replica = bench().keep(await startReplica(master));
    const node = await open(shim.port);
    using directory = createSubscriptionCache(node);
    await node.commit([stored(SUB)]);
    await enqueue(node, due("a", 1, clock.now()));
    await caughtUp(master, replica);
    // From here on the replica gets nothing: what follows on the master is lost with it.
    replica.pause();
    await node.commit([stored({ ...SUB, description: "lost" })]);
    expect((await directory.get(SUB.keyId, SUB.id))?.description).toBe("lost");
    const told: string[] = [];
    node.watch((keys) => void told.push(...keys));
    // Its messages come through no more, as in a cluster whose client mends its subscription without a word.
    shim.hush();
    await master.kill();
    replica.resume();
    await replica.command("REPLICAOF", "NO", "ONE");
    await until(async () => (await replica.command("ROLE")).includes("master"));
    // Somebody else changes it on the new master, which thereby comes to the same number.
    const other = await open(replica.port);
    await other.commit([stored({ ...SUB, description: "kept", status: "disabled" })]);
    shim.aim(replica.port);
    const leases = await claimed(node);
    expect(leases).toHaveLength(1);
    expect(told).toContain("subscription:");
    expect(await directory.get(SUB.keyId, SUB.id)).toMatchObject({ description: "kept", status: "disabled" });
  });

  it("refuses new events that were fanned out by a subscription whose change was lost", async () => {
    const server = await bench().server({});
    const node = await open(server.port);
    await node.commit([stored(SUB)]);
    // As on a master that lacks the last commit, and has had another one since.
    await server.command("SET", "{relay}:epoch:id", "another");
    await server.command("HSET", "{relay}:epochs", "1", "another");
    const fresh: readonly Change[] = [{ op: "put", key: "event:key_1:1", value: "{}", if: null }];
    await expect(node.commit(fresh)).rejects.toMatchObject({ keys: ["subscription:"] });
    await node.commit([...fresh]);
    const other = await open(server.port);
    await other.commit([stored({ ...SUB, keyId: "key_2" })]);
    await node.commit([{ op: "put", key: "event:key_1:2", value: "{}", if: null }]);
  });
});

/** Returns what is due, as soon as the storage answers again. */
async function claimed(storage: Storage): Promise<readonly unknown[]> {
  for (;;) {
    const leases = await claim(storage.queue).catch(() => []);
    if (leases.length > 0) return leases;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
