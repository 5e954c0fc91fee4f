import { afterEach, describe, expect, it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { dueKey } from "../../core/model/keys.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { redis } from "../../plugins/storage/redis.ts";
import type { RedisOptions } from "../../plugins/storage/redis.ts";
import { claim, due, endOf, enqueue } from "../conformance/queue.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { startCluster, startRedis, startReplica, startSentinel } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";

const missing = needs("redis");
const clock = systemClock();
const SAFE = { appendonly: "yes", appendfsync: "always" };
let log = quietLog();

const stack: AsyncDisposable[] = [];
const keep = <T extends AsyncDisposable>(one: T): T => {
  stack.push(one);
  return one;
};
afterEach(async () => {
  for (const one of stack.splice(0).toReversed()) await one[Symbol.asyncDispose]();
});

const server = async (config: Readonly<Record<string, string>> = SAFE): Promise<RedisServer> =>
  keep(await startRedis({ config }));
async function open(options: RedisOptions): Promise<Storage> {
  log = quietLog();
  const storage = await redis(options).setup(pluginContext(clock, "/nonexistent", { log }));
  keep({ [Symbol.asyncDispose]: () => storage.dispose() });
  return storage;
}
const put = (key: string, value = "x"): Change => ({ op: "put", key, value });

const LOOK_MS = 20;
/**
 * Tells how a call ended and after how long. The time for which the machine held up this process is left out twice: a call
 * whose time-out was late may be tried once more.
 */
async function timed(promise: Promise<unknown>): Promise<{ readonly fault: string | undefined; readonly ms: number }> {
  const began = clock.monotonic();
  let last = began;
  let late = 0;
  const look = (): void => {
    const now = clock.monotonic();
    if (now - last > 2 * LOOK_MS) late += now - last - LOOK_MS;
    last = now;
  };
  const looking = setInterval(look, LOOK_MS);
  const fault = await promise.then(
    () => undefined,
    (error: { fault?: string; name: string }) => error.fault ?? error.name,
  );
  clearInterval(looking);
  look();
  return { fault, ms: Math.max(0, clock.monotonic() - began - 2 * late) };
}

/** Tries until it works; how long that took. */
async function recovery(storage: Storage): Promise<number> {
  const began = clock.monotonic();
  while ((await timed(storage.commit([put("meta:recovered")]))).fault !== undefined);
  return clock.monotonic() - began;
}

/** Commits all the while; the keys that were acknowledged. */
function writing(storage: Storage): { stop(): Promise<readonly string[]>; readonly acknowledged: string[] } {
  const acknowledged: string[] = [];
  let on = true;
  const write = async (writer: number): Promise<void> => {
    for (let n = 0; on; n++) {
      const key = `event:k:${writer}-${n}`;
      if ((await timed(storage.commit([put(key)]))).fault === undefined) acknowledged.push(key);
    }
  };
  const writers = [1, 2, 3, 4].map(write);
  return {
    acknowledged,
    async stop() {
      on = false;
      await Promise.all(writers);
      return acknowledged;
    },
  };
}

describe.skipIf(missing !== undefined)(
  `redis() when Redis fails${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    it("fails within two seconds when Redis is killed, works again within five of its return, and has lost nothing", async () => {
      const node = await server();
      const storage = await open({ url: node.url });
      expect(storage.durability).toBe("fsync");
      const writer = writing(storage);
      await until(async () => writer.acknowledged.length > 200);
      await node.kill();
      const acknowledged = await writer.stop();
      const calls = [
        storage.commit([put("meta:a")]),
        storage.getItem("meta:a"),
        storage.range("event:"),
        claim(storage.queue),
      ];
      for (const { fault, ms } of await Promise.all(calls.map(timed))) {
        expect(fault).toBe("unavailable");
        expect(ms).toBeLessThan(2_000);
      }
      await node.start();
      expect(await recovery(storage)).toBeLessThan(5_000);
      const found = await storage.getMany(acknowledged);
      expect(found.filter((value) => value === undefined)).toHaveLength(0);
    });

    it("fails within two seconds when Redis is stopped, also in the middle of a commit, and goes on after it", async () => {
      const node = await server();
      const storage = await open({ url: node.url });
      node.pause();
      const [commit, read, decide] = await Promise.all([
        timed(storage.commit([put("event:k:1")])),
        timed(storage.getItem("event:k:1")),
        timed(
          storage.counters.take([
            { key: "a", sustained: { limit: 9, windowMs: 60_000 }, burst: { limit: 9, windowMs: 5_000 } },
          ]) as Promise<unknown>,
        ),
      ]);
      expect(commit.fault).toBe("uncertain");
      expect([read.fault, decide.fault]).toEqual(["unavailable", "unavailable"]);
      for (const { ms } of [commit, read, decide]) expect(ms).toBeLessThan(2_000);
      // Known to be gone: nobody waits the whole time again.
      expect((await timed(storage.getItem("event:k:1"))).ms).toBeLessThan(1_000);
      node.resume();
      expect(await recovery(storage)).toBeLessThan(5_000);
    });

    it("fails within two seconds behind a black hole, and goes on when it ends", async () => {
      const node = await server();
      const shim = keep(await tcpShim(node.port));
      const storage = await open({ url: `redis://127.0.0.1:${shim.port}` });
      await storage.commit([put("event:k:1")]);
      shim.swallow();
      const asked = await Promise.all([
        timed(storage.commit([put("event:k:2")])),
        timed(storage.range("event:")),
        timed(storage.queue.depth()),
      ]);
      for (const { fault, ms } of asked) {
        expect(["unavailable", "uncertain"]).toContain(fault);
        expect(ms).toBeLessThan(2_000);
      }
      shim.pass();
      expect(await recovery(storage)).toBeLessThan(5_000);
      expect(await storage.getItem("event:k:1")).toBe("x");
    });

    it("makes a commit once whose answer was lost, and says that it was made", async () => {
      const node = await server();
      const shim = keep(await tcpShim(node.port));
      const storage = await open({ url: `redis://127.0.0.1:${shim.port}` });
      await storage.commit([put("meta:a")]);
      shim.swallowReplies();
      // Conditional: a second time it would be refused.
      const committing = timed(storage.commit([{ op: "put", key: "event:k:1", value: "x", if: null }]));
      await until(async () => (await node.command("EXISTS", "{relay}:r:event:k:1")).startsWith(":1"));
      shim.cut();
      shim.pass();
      expect(await committing).toMatchObject({ fault: undefined });
      await expect(storage.commit([{ op: "put", key: "event:k:1", value: "x", if: null }])).rejects.toBeInstanceOf(
        ConflictError,
      );
    });

    it("knows a commit again that was uncertain when the caller repeats it", async () => {
      const node = await server();
      const shim = keep(await tcpShim(node.port));
      const storage = await open({ url: `redis://127.0.0.1:${shim.port}` });
      await storage.commit([put("meta:a")]);
      const changes: readonly Change[] = [{ op: "put", key: "event:k:1", value: "x", if: null }];
      shim.swallowReplies();
      expect((await timed(storage.commit(changes))).fault).toBe("uncertain");
      shim.pass();
      await recovery(storage);
      await storage.commit(changes);
      expect(await storage.getItem("event:k:1")).toBe("x");
    });

    it("settles once though the answer was lost", async () => {
      const node = await server();
      const shim = keep(await tcpShim(node.port));
      const storage = await open({ url: `redis://127.0.0.1:${shim.port}` });
      await enqueue(storage, due("a", 1, clock.now()), due("b", 2, clock.now()));
      const [lease, first] = await claim(storage.queue);
      if (lease === undefined || first === undefined) throw new Error("nothing was claimed");
      await storage.queue.settle(first, [endOf(first)]);
      shim.swallowReplies();
      const settling = timed(storage.queue.settle(lease, [endOf(lease), put("delivery:s:1")]));
      await until(async () => (await node.command("EXISTS", "{relay}:r:delivery:s:1")).startsWith(":1"));
      shim.cut();
      shim.pass();
      expect(await settling).toMatchObject({ fault: undefined });
    });

    it("says full when Redis is out of memory, changes nothing by half, and can still delete", async () => {
      const node = await server({ ...SAFE, maxmemory: "8mb", "maxmemory-policy": "noeviction" });
      const storage = await open({ url: node.url });
      let n = 0;
      let end: string | undefined;
      for (; end === undefined && n < 500; n++) {
        end = (await timed(storage.commit([put(`event:k:${n}`, "x".repeat(50_000)), put(`due:s:${n}`, "k 0 0 0")])))
          .fault;
      }
      expect(end).toBe("full");
      const [events, dues] = [await storage.getKeys("event:", {}), await storage.getKeys("due:", {})];
      expect(events.length).toBe(dues.length);
      expect(events.length).toBe(n - 1);
      // What is under way can be brought to its end.
      await node.command("CONFIG", "SET", "maxmemory", "0");
      await storage.commit([
        endOf(due("s", 0, 0)),
        { op: "put", key: dueKey(due("a", 1, clock.now())), value: "k 0 0 0" },
      ]);
      await node.command("CONFIG", "SET", "maxmemory", "1mb");
      const [lease] = await claim(storage.queue);
      if (lease === undefined) throw new Error("nothing was claimed");
      expect(await storage.queue.extend(lease)).toBe(true);
      await storage.queue.settle(lease, [endOf(lease), put("delivery:sub_a:1")]);
      await node.command("CONFIG", "SET", "maxmemory", "8mb");
      await storage.commit(events.map((key) => ({ op: "delete", key })));
      expect(await storage.getKeys("event:", {})).toEqual([]);
      expect(await recovery(storage)).toBeLessThan(5_000);
    });
  },
);

describe.skipIf(missing !== undefined)("redis() tells what this Redis can promise", () => {
  it("calls it volatile without an append-only file synced always", async () => {
    for (const config of [
      { appendonly: "no", appendfsync: "always" },
      { appendonly: "yes", appendfsync: "everysec" },
      { ...SAFE, "no-appendfsync-on-rewrite": "yes" },
    ]) {
      const storage = await open({ url: (await server(config)).url });
      expect(storage.durability).toBe("volatile");
      expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
    }
  });

  it("calls it volatile when a replica could take over without what was acknowledged", async () => {
    const node = await server();
    keep(await startReplica(node));
    expect((await open({ url: node.url })).durability).toBe("volatile");
    expect((await open({ url: node.url, replicas: 1 })).durability).toBe("replicated");
    await node.command("CONFIG", "SET", "appendfsync", "everysec");
    expect((await open({ url: node.url, replicas: 1 })).durability).toBe("volatile");
  });

  it("looks again: what is set up otherwise while it runs, and replicas that come, are told, logged and counted", async () => {
    const node = await server();
    log = quietLog();
    const metrics = quietMetrics();
    const storage = await redis({ url: node.url }).setup(pluginContext(clock, "/nonexistent", { log, metrics }));
    keep({ [Symbol.asyncDispose]: () => storage.dispose() });
    const becomes = (word: string): Promise<void> => until(async () => storage.durability === word);
    expect(storage.durability).toBe("fsync");
    await node.command("CONFIG", "SET", "appendfsync", "no");
    await becomes("volatile");
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { durability: "volatile" } });
    await node.command("CONFIG", "SET", "appendfsync", "always");
    await becomes("fsync");
    await node.command("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes");
    await becomes("volatile");
    await node.command("CONFIG", "SET", "no-appendfsync-on-rewrite", "no");
    await becomes("fsync");
    keep(await startReplica(node));
    await becomes("volatile");
    expect((await storage.status())["durability"]).toBe("volatile");
    expect(Object.fromEntries(metrics.counted)).toEqual({
      "durability_changes volatile": 3,
      "durability_changes fsync": 2,
    });
  });

  it("refuses a Redis that throws data away, and one that is a replica", async () => {
    const evicting = await server({ "maxmemory-policy": "allkeys-lru", maxmemory: "64mb" });
    await expect(open({ url: evicting.url })).rejects.toMatchObject({ exitCode: 78 });
    const replica = keep(await startReplica(await server()));
    await expect(open({ url: replica.url })).rejects.toMatchObject({ exitCode: 78 });
  });

  it("says that Redis is not there, soon", async () => {
    const node = await server();
    await node.kill();
    const began = clock.monotonic();
    await expect(open({ url: node.url })).rejects.toMatchObject({ exitCode: 69 });
    expect(clock.monotonic() - began).toBeLessThan(3_000);
  });

  it("names every problem of its options", () => {
    expect(redis({}).problems).toHaveLength(1);
    expect(redis({ url: "http://x", prefix: "a{b}", replicas: -1 }).problems?.map(({ path }) => path)).toEqual([
      "url",
      "prefix",
      "replicas",
    ]);
    expect(redis({ url: "redis://x", cluster: [] }).problems).toHaveLength(2);
  });
});

describe.skipIf(missing !== undefined)("redis() with replicas", () => {
  it("does not acknowledge what too few replicas have", async () => {
    const node = await server();
    const replica = keep(await startReplica(node));
    const storage = await open({ url: node.url, replicas: 1 });
    await storage.commit([put("event:k:1")]);
    expect(await replica.command("GET", "{relay}:r:event:k:1")).toContain("x");
    replica.pause();
    const { fault, ms } = await timed(storage.commit([put("event:k:2")]));
    expect(fault).toBe("uncertain");
    expect(ms).toBeLessThan(2_000);
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(5_000);
  });

  it("lets no attempt begin on what too few replicas have", async () => {
    const node = await server();
    const replica = keep(await startReplica(node));
    const storage = await open({ url: node.url, replicas: 1 });
    replica.pause();
    expect((await timed(enqueue(storage, due("a", 1, clock.now())))).fault).toBe("uncertain");
    const [lease] = await claim(storage.queue);
    if (lease === undefined) throw new Error("nothing was claimed");
    expect((await timed(Promise.resolve(storage.queue.extend(lease)))).fault).toBeDefined();
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(5_000);
    expect(await storage.queue.extend(lease)).toBe(true);
  });

  it("loses nothing that it acknowledged when the master dies and a sentinel promotes the replica", async () => {
    const master = await server();
    const replica = keep(await startReplica(master, { config: SAFE }));
    const sentinel = keep(await startSentinel(master));
    const storage = await open({ sentinels: [{ host: "127.0.0.1", port: sentinel.port }], replicas: 1 });
    expect(storage.durability).toBe("replicated");
    const writer = writing(storage);
    await until(async () => writer.acknowledged.length > 200);
    await master.kill();
    const acknowledged = await writer.stop();
    await until(async () => (await replica.command("ROLE")).includes("master"));
    // The only replica is the master now: commits wait for one that is not there, reads go on.
    await until(async () => (await timed(storage.getItem("event:k:1-0"))).fault === undefined);
    const found = await storage.getMany(acknowledged);
    expect(found.filter((value) => value === undefined)).toHaveLength(0);
    expect((await timed(storage.commit([put("meta:a")]))).fault).toBe("uncertain");
  });
});

describe.skipIf(missing !== undefined)("redis() in a cluster", () => {
  it("keeps all keys of a relay in one slot, and commits, claims and tells across nodes", async () => {
    const nodes = await startCluster(3);
    for (const node of nodes) keep(node);
    const cluster = nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
    const [one, two] = [await open({ cluster, prefix: "c" }), await open({ cluster, prefix: "c" })];
    const told: string[] = [];
    two.watch((keys) => void told.push(...keys));
    await one.commit([put("subscription:k:sub_a"), put("event:k:1")]);
    await until(async () => told.length > 0);
    expect(told).toEqual(["subscription:k:sub_a"]);
    expect(await two.range("event:")).toEqual([{ key: "event:k:1", value: "x" }]);
    await enqueue(one, due("a", 1, clock.now()), due("b", 1, clock.now()));
    const leases = await claim(two.queue);
    expect(leases).toHaveLength(2);
    for (const lease of leases) await two.queue.settle(lease, [endOf(lease)]);
    expect(await one.getKeys("due:", {})).toEqual([]);
    const sizes = await Promise.all(nodes.map((node) => node.command("DBSIZE")));
    expect(sizes.filter((size) => !size.startsWith(":0"))).toHaveLength(1);
  });
});

describe.skipIf(missing !== undefined)("redis() and other nodes", () => {
  it("tells every node of changed subscriptions, and wakes it for what another has written", async () => {
    const node = await server();
    const [one, two] = [await open({ url: node.url }), await open({ url: node.url })];
    const told: string[] = [];
    two.watch((keys) => void told.push(...keys));
    while ((await claim(two.queue)).length > 0);
    const woken = two.queue.wake(new AbortController().signal);
    await one.commit([put("control:reload"), put("event:k:1")]);
    await until(async () => told.length > 0);
    expect(told).toEqual(["control:reload"]);
    const began = clock.monotonic();
    await enqueue(one, due("a", 1, clock.now()));
    await woken;
    expect(clock.monotonic() - began).toBeLessThan(1_000);
    expect(await claim(two.queue)).toHaveLength(1);
  });

  it("notices before it sends that it has missed a message", async () => {
    const node = await server();
    const shim = keep(await tcpShim(node.port));
    const [one, deaf] = [await open({ url: node.url }), await open({ url: `redis://127.0.0.1:${shim.port}` })];
    await enqueue(one, due("a", 1, clock.now()));
    const [lease] = await claim(deaf.queue);
    if (lease === undefined) throw new Error("nothing was claimed");
    const told: string[] = [];
    // As if the message had never come: nobody listens for it.
    await node.command("CLIENT", "KILL", "TYPE", "pubsub");
    await one.commit([put("subscription:k:sub_a")]);
    deaf.watch((keys) => void told.push(...keys));
    expect(await deaf.queue.extend(lease)).toBe(true);
    expect(told).toContain("subscription:");
  });
});
