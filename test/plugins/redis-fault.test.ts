import { expect, it } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import { DUE } from "../../core/model/schema.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { redis, type RedisOptions } from "../../plugins/storage/redis.ts";
import { CALL_MS, COMMAND_MS, connection, type RedisConnection } from "../../plugins/storage/redis/connect.ts";
import { claim, due, endOf, enqueue } from "../conformance/queue.ts";
import { hurried, pacedClock } from "../support/paced-clock.ts";
import { quietMetrics } from "../support/quiet.ts";
import { startCluster, startReplica, startSentinel } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { describeRedis, type How, type More, RedisBench, SAFE } from "../support/redis-bench.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";

const clock = systemClock();

/** More than a call or a reconnection takes on a machine that is held up, and less than a client takes that waits for ever. */
const SOON_MS = 20_000;

/** The exit code of a start that may go well later. */
const NOT_THERE = 69;

/** A call has twenty times as long: it is the answer that is lost here, not the time of a busy machine. */
const patient: Clock = { ...clock, monotonic: () => clock.monotonic() / 20 };

/** A pause between two tries is shorter, ms. */
const PAUSE_MS = 200;

/** Has storages opened until Redis answers in time, as a service manager does: a busy machine may hold it up for a second. */
class Bench extends RedisBench {
  async cluster(size: number) {
    const nodes = await startCluster(size);
    for (const node of nodes) this.keep(node);
    return { nodes, cluster: nodes.map(({ port }) => ({ host: "127.0.0.1", port })) };
  }

  /** A server behind a line that can be cut. */
  async shimmed() {
    const node = await this.server();
    const shim = this.keep(await tcpShim(node.port));
    return { node, shim, url: `redis://127.0.0.1:${shim.port}` };
  }

  override async open(options: RedisOptions, more?: More, ...how: How | []): Promise<Storage> {
    for (;;) {
      try {
        return await super.open(options, more, ...how);
      } catch (error) {
        if ((error as { exitCode?: number }).exitCode !== NOT_THERE) throw error;
      }
    }
  }
}

/** Most of these wait for time-outs: they do it together. */
const law = (name: string, prove: (bench: Bench) => Promise<void>): void =>
  it.concurrent(name, async () => {
    await using bench = new Bench();
    await prove(bench);
  });

/** A storage whose commits wait for the one replica. */
async function replicated(bench: Bench) {
  const node = await bench.server();
  const replica = bench.keep(await startReplica(node));
  return { node, replica, storage: await bench.open({ url: node.url, replicas: 1 }) };
}

const put = (key: string, value = "x"): Change => ({ op: "put", key, value });

/** Tells how a call ended and after how long. */
async function timed(promise: Promise<unknown>): Promise<{ readonly fault: string | undefined; readonly ms: number }> {
  const began = clock.monotonic();
  const fault = await promise.then(
    () => undefined,
    (error: { fault?: string; name: string }) => error.fault ?? error.name,
  );
  return { fault, ms: clock.monotonic() - began };
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

describeRedis("redis() when Redis fails", { concurrent: true }, () => {
  it("bounds a call by less than two seconds, and a try by less than one", () => {
    expect(CALL_MS).toBeLessThan(2_000);
    expect(COMMAND_MS).toBeLessThan(1_000);
  });

  law("fails soon when Redis is killed, works again soon after its return, and has lost nothing", async (bench) => {
    const node = await bench.server();
    const storage = await bench.open({ url: node.url });
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
      expect(ms).toBeLessThan(SOON_MS);
    }
    await node.start();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    const found = await storage.getMany(acknowledged);
    expect(found.filter((value) => value === undefined)).toHaveLength(0);
  });

  law("fails soon when Redis is stopped, also in the middle of a commit, and goes on after it", async (bench) => {
    const node = await bench.server();
    const paced = pacedClock((ms) => ms);
    const storage = await bench.open({ url: node.url }, { clock: paced });
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
    for (const { ms } of [commit, read, decide]) expect(ms).toBeLessThan(SOON_MS);
    // Known to be gone: nobody tries again and again for the whole time, with a pause before each try.
    const asked = paced.asked.length;
    expect((await timed(storage.getItem("event:k:1"))).fault).toBe("unavailable");
    expect(paced.asked.slice(asked).filter((ms) => ms < PAUSE_MS)).toEqual([]);
    node.resume();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
  });

  law("fails as soon when a large commit waits for a Redis that is not there", async (bench) => {
    const node = await bench.server();
    const storage = await bench.open({ url: node.url });
    await node.kill();
    // As large a commit may take half a minute at a Redis that works on it.
    const large = Array.from({ length: 120_000 }, (_, i) => put(`event:k:${i}`));
    const calls = [storage.commit(large), storage.commit([put("meta:a")]), storage.getItem("meta:a")];
    for (const { fault, ms } of await Promise.all(calls.map(timed))) {
      expect(fault).toBe("unavailable");
      expect(ms).toBeLessThan(SOON_MS);
    }
  });

  law("fails soon behind a black hole, and goes on when it ends", async (bench) => {
    const { shim, url } = await bench.shimmed();
    const storage = await bench.open({ url });
    await storage.commit([put("event:k:1")]);
    shim.swallow();
    const asked = await Promise.all([
      timed(storage.commit([put("event:k:2")])),
      timed(storage.range("event:")),
      timed(storage.queue.depth()),
    ]);
    for (const { fault, ms } of asked) {
      expect(["unavailable", "uncertain"]).toContain(fault);
      expect(ms).toBeLessThan(SOON_MS);
    }
    shim.pass();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    expect(await storage.getItem("event:k:1")).toBe("x");
  });

  law("makes a commit once whose answer was lost, and says that it was made", async (bench) => {
    const { node, shim, url } = await bench.shimmed();
    const storage = await bench.open({ url }, { clock: patient });
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

  law("knows a commit again that was uncertain when the caller repeats it", async (bench) => {
    const { shim, url } = await bench.shimmed();
    const storage = await bench.open({ url });
    await storage.commit([put("meta:a")]);
    const changes: readonly Change[] = [{ op: "put", key: "event:k:1", value: "x", if: null }];
    shim.swallowReplies();
    expect((await timed(storage.commit(changes))).fault).toBe("uncertain");
    shim.pass();
    await recovery(storage);
    await storage.commit(changes);
    expect(await storage.getItem("event:k:1")).toBe("x");
  });

  law("settles once though the answer was lost", async (bench) => {
    const { node, shim, url } = await bench.shimmed();
    const storage = await bench.open({ url }, { clock: patient });
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

  law("says full when Redis is out of memory, changes nothing by half, and can still delete", async (bench) => {
    const node = await bench.server({ ...SAFE, maxmemory: "8mb", "maxmemory-policy": "noeviction" });
    const storage = await bench.open({ url: node.url });
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
      { op: "put", key: DUE.key(due("a", 1, clock.now())), value: "k 0 0 0" },
    ]);
    await node.command("CONFIG", "SET", "maxmemory", "1mb");
    const [lease] = await claim(storage.queue);
    if (lease === undefined) throw new Error("nothing was claimed");
    expect(await storage.queue.extend(lease)).toBe(true);
    await storage.queue.settle(lease, [endOf(lease), put("delivery:sub_a:1")]);
    await node.command("CONFIG", "SET", "maxmemory", "8mb");
    await storage.commit(events.map((key) => ({ op: "delete", key })));
    expect(await storage.getKeys("event:", {})).toEqual([]);
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
  });
});

describeRedis("redis() tells what this Redis can promise", { concurrent: true }, () => {
  law("calls it volatile without an append-only file synced always", async (bench) => {
    for (const [i, config] of [
      { appendonly: "no", appendfsync: "always" },
      { appendonly: "yes", appendfsync: "everysec" },
      { ...SAFE, "no-appendfsync-on-rewrite": "yes" },
    ].entries()) {
      const storage = await bench.open({ url: (await bench.server(config)).url });
      expect(storage.durability).toBe("volatile");
      expect(bench.log.lines.filter(({ level }) => level === "warn")).toHaveLength(i + 1);
    }
  });

  law("calls it volatile when a replica could take over without what was acknowledged", async (bench) => {
    const node = await bench.server();
    bench.keep(await startReplica(node));
    expect((await bench.open({ url: node.url })).durability).toBe("volatile");
    expect((await bench.open({ url: node.url, replicas: 1 })).durability).toBe("replicated");
    await node.command("CONFIG", "SET", "appendfsync", "everysec");
    expect((await bench.open({ url: node.url, replicas: 1 })).durability).toBe("volatile");
  });

  law(
    "looks again: what is set up otherwise while it runs, and replicas that come, are told, logged and counted",
    async (bench) => {
      const node = await bench.server();
      const metrics = quietMetrics();
      // It looks every five seconds.
      const storage = await bench.open({ url: node.url }, { metrics, clock: pacedClock(hurried(4_000)) });
      const becomes = (word: string): Promise<void> => until(async () => storage.durability === word);
      expect(storage.durability).toBe("fsync");
      await node.command("CONFIG", "SET", "appendfsync", "no");
      await becomes("volatile");
      expect(bench.log.lines.at(-1)).toMatchObject({ level: "warn", fields: { durability: "volatile" } });
      await node.command("CONFIG", "SET", "appendfsync", "always");
      await becomes("fsync");
      await node.command("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes");
      await becomes("volatile");
      await node.command("CONFIG", "SET", "no-appendfsync-on-rewrite", "no");
      await becomes("fsync");
      bench.keep(await startReplica(node));
      await becomes("volatile");
      expect((await storage.status())["durability"]).toBe("volatile");
      expect(Object.fromEntries(metrics.counted)).toEqual({
        "durability_changes volatile": 3,
        "durability_changes fsync": 2,
      });
    },
  );

  law("looks at once when it has a connection again: what it finds may be another Redis", async (bench) => {
    const node = await bench.server();
    // By itself it would look after hours.
    const hours = pacedClock((ms) => (ms >= 2_000 ? ms * 1_000 : ms));
    const storage = await bench.open({ url: node.url }, { clock: hours });
    expect(storage.durability).toBe("fsync");
    await node.command("CONFIG", "SET", "appendfsync", "everysec");
    await node.command("CLIENT", "KILL", "TYPE", "normal");
    await until(async () => storage.durability === "volatile");
  });

  law("takes a Redis that reads its records after a restart for what it was", async (bench) => {
    // Each record is read slowly. The server answers questions about itself meanwhile, and says that it has no append-only file.
    const node = await bench.server({ ...SAFE, "key-load-delay": "200" });
    await node.command("EVAL", "for i = 1, 10000 do redis.call('SET', 'other:' .. i, i) end", "0");
    const metrics = quietMetrics();
    const storage = await bench.open({ url: node.url }, { metrics, clock: pacedClock(hurried(4_000)) });
    await node.kill();
    await node.start();
    await recovery(storage);
    expect(storage.durability).toBe("fsync");
    expect(bench.log.lines.filter(({ fields }) => fields?.["durability"] === "volatile")).toEqual([]);
    expect(metrics.counted.size).toBe(0);
  });

  law("keeps to what it knew when the connection ends between two of its questions", async (bench) => {
    const node = await bench.server();
    let made: RedisConnection | undefined;
    const connect: typeof connection = async (...given) => (made = await connection(...given));
    const storage = await bench.open({ url: node.url }, { clock: pacedClock(hurried(4_000)) }, () => "", connect);
    let asked = 0;
    Object.assign(made?.client as object, {
      config: () => Promise.reject(new Error(`Connection is closed (${++asked})`)),
    });
    await until(() => asked > 10);
    expect(storage.durability).toBe("fsync");
  });

  law("looks again before it calls a Redis volatile that does not tell its settings once", async (bench) => {
    const node = await bench.server();
    let made: RedisConnection | undefined;
    const connect: typeof connection = async (...given) => (made = await connection(...given));
    const storage = await bench.open({ url: node.url }, { clock: pacedClock(hurried(4_000)) }, () => "", connect);
    const client = made?.client as unknown as { config(...words: readonly string[]): Promise<unknown> };
    const config = client.config.bind(client);
    let asked = 0;
    client.config = (...words) =>
      asked++ === 0
        ? Promise.reject(Object.assign(new Error("ERR not now"), { name: "ReplyError" }))
        : config(...words);
    await until(() => asked > 6);
    expect(storage.durability).toBe("fsync");
    expect(bench.log.lines.filter(({ fields }) => fields?.["durability"] === "volatile")).toEqual([]);
  });

  law("calls a cluster volatile that commits wait for no replica of: another node may take over", async (bench) => {
    const { nodes, cluster } = await bench.cluster(3);
    for (const node of nodes)
      for (const [name, value] of Object.entries(SAFE)) await node.command("CONFIG", "SET", name, value);
    const storage = await bench.open({ cluster, prefix: "c" });
    expect(await storage.status()).toMatchObject({ appendfsync: "always", replicas: 0, durability: "volatile" });
  });

  law("says, and calls it volatile, when Redis is told to throw data away while it runs", async (bench) => {
    const node = await bench.server({ ...SAFE, maxmemory: "64mb" });
    const storage = await bench.open({ url: node.url }, { clock: pacedClock(hurried(4_000)) });
    expect(storage.durability).toBe("fsync");
    await node.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await until(async () => storage.durability === "volatile");
    expect(bench.log.lines.at(-1)).toMatchObject({
      level: "warn",
      message: expect.stringContaining("maxmemory-policy"),
      fields: { durability: "volatile" },
    });
    await node.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await until(async () => storage.durability === "fsync");
  });

  law("refuses a Redis that throws data away, and one that is a replica", async (bench) => {
    const evicting = await bench.server({ "maxmemory-policy": "allkeys-lru", maxmemory: "64mb" });
    await expect(bench.open({ url: evicting.url })).rejects.toMatchObject({ exitCode: 78 });
    const replica = bench.keep(await startReplica(await bench.server()));
    await expect(bench.open({ url: replica.url })).rejects.toMatchObject({ exitCode: 78 });
  });

  law("refuses a database that this Redis does not have, in place of using another one", async (bench) => {
    const node = await bench.server();
    await expect(bench.open({ url: `${node.url}/99` })).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringContaining("99"),
    });
    expect(redis({ url: `${node.url}/orders` }).problems).toMatchObject([{ path: "url" }]);
    expect(redis({ url: `${node.url}/` }).problems).toEqual([]);
    await (await bench.open({ url: `${node.url}/7` })).commit([put("event:k:1")]);
    expect(await node.command("INFO", "keyspace")).toMatch(/db7:/);
    expect(await node.command("INFO", "keyspace")).not.toMatch(/db0:/);
  });

  law("says that Redis is not there, soon", async (bench) => {
    const node = await bench.server();
    await node.kill();
    const began = clock.monotonic();
    await expect(new RedisBench().open({ url: node.url })).rejects.toMatchObject({ exitCode: NOT_THERE });
    expect(clock.monotonic() - began).toBeLessThan(SOON_MS);
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

describeRedis("redis() with replicas", { concurrent: true }, () => {
  law("does not acknowledge what too few replicas have", async (bench) => {
    const { replica, storage } = await replicated(bench);
    await storage.commit([put("event:k:1")]);
    expect(await replica.command("GET", "{relay}:r:event:k:1")).toContain("x");
    replica.pause();
    const { fault, ms } = await timed(storage.commit([put("event:k:2")]));
    expect(fault).toBe("uncertain");
    expect(ms).toBeLessThan(SOON_MS);
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
  });

  law("lets no attempt begin on what too few replicas have", async (bench) => {
    const { replica, storage } = await replicated(bench);
    replica.pause();
    expect((await timed(enqueue(storage, due("a", 1, clock.now())))).fault).toBe("uncertain");
    const [lease] = await claim(storage.queue);
    if (lease === undefined) throw new Error("nothing was claimed");
    expect((await timed(Promise.resolve(storage.queue.extend(lease)))).fault).toBeDefined();
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    expect(await storage.queue.extend(lease)).toBe(true);
  });

  law("does not acknowledge it either when the caller repeats it over a new connection", async (bench) => {
    const { node, replica, storage } = await replicated(bench);
    replica.pause();
    const changes = [put("event:k:1")];
    expect((await timed(storage.commit(changes))).fault).toBe("uncertain");
    await node.command("CLIENT", "KILL", "TYPE", "normal");
    await until(async () => (await timed(storage.getItem("event:k:1"))).fault === undefined);
    expect((await timed(storage.commit(changes))).fault).toBe("uncertain");
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    await storage.commit(changes);
    expect(await replica.command("GET", "{relay}:r:event:k:1")).toContain("x");
  });

  law("lets no attempt begin in the very millisecond of its claim before replicas have it", async (bench) => {
    const node = await bench.server();
    const replica = bench.keep(await startReplica(node));
    const storage = await bench.open({ url: node.url, replicas: 1 }, {}, () => 1_800_000_000_000);
    await enqueue(storage, due("a", 1, 1_700_000_000_000));
    replica.pause();
    const [lease] = await claim(storage.queue);
    if (lease === undefined) throw new Error("nothing was claimed");
    expect((await timed(Promise.resolve(storage.queue.extend(lease)))).fault).toBeDefined();
    replica.resume();
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    expect(await storage.queue.extend(lease)).toBe(true);
  });

  law("loses nothing that it acknowledged when the master dies and a sentinel promotes the replica", async (bench) => {
    const master = await bench.server();
    const replica = bench.keep(await startReplica(master, { config: SAFE }));
    const sentinel = bench.keep(await startSentinel(master));
    const storage = await bench.open({ sentinels: [{ host: "127.0.0.1", port: sentinel.port }], replicas: 1 });
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

describeRedis("redis() in a cluster", { concurrent: true }, () => {
  law("keeps all keys of a relay in one slot, and commits, claims and tells across nodes", async (bench) => {
    const { nodes, cluster } = await bench.cluster(3);
    const [one, two] = [await bench.open({ cluster, prefix: "c" }), await bench.open({ cluster, prefix: "c" })];
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

  law("knows the memory, the clock and the set-up of the node that keeps its slot, not of any other", async (bench) => {
    const { nodes, cluster } = await bench.cluster(3);
    const [, text] = /:(\d+)/.exec(await (nodes[0] as RedisServer).command("CLUSTER", "KEYSLOT", "{c}")) ?? [];
    const own = Math.floor((Number(text) * 3) / 16_384);
    for (const [i, node] of nodes.entries()) {
      await node.command("CONFIG", "SET", "maxmemory", i === own ? "64mb" : "640mb");
      await node.command("CONFIG", "SET", "appendonly", i === own ? "yes" : "no");
      await node.command("CONFIG", "SET", "appendfsync", i === own ? "always" : "no");
    }
    const storage = await bench.open({ cluster, prefix: "c" });
    for (let n = 0; n < 12; n++) expect((await storage.room?.())?.totalBytes).toBe(64 * 1024 * 1024);
    expect((await storage.status())["appendfsync"]).toBe("always");
    for (const [i, node] of nodes.entries())
      await node.command("CONFIG", "SET", "maxmemory-policy", i === own ? "allkeys-lru" : "noeviction");
    await expect(bench.open({ cluster, prefix: "c" })).rejects.toMatchObject({ exitCode: 78 });
  });

  law("refuses commits while its slot moves to another node, and goes on there with all of it", async (bench) => {
    const { nodes, cluster } = await bench.cluster(2);
    const storage = await bench.open({ cluster, prefix: "c" });
    await storage.commit([put("subscription:k:sub_a"), { op: "put", key: "event:k:1", value: "x", if: null }]);
    await enqueue(storage, due("a", 1, clock.now()));
    const [, slot = ""] = /:(\d+)/.exec(await (nodes[0] as RedisServer).command("CLUSTER", "KEYSLOT", "{c}")) ?? [];
    const [from, to] = (Number(slot) < 8_192 ? nodes : nodes.toReversed()) as [RedisServer, RedisServer];
    const idOf = async (node: RedisServer): Promise<string> => (await node.command("CLUSTER", "MYID")).slice(5).trim();
    const [fromId, toId] = [await idOf(from), await idOf(to)];
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
    // Neither the node that has nothing yet nor the one that has only a part answers for the whole.
    const again: Change = { op: "put", key: "event:k:1", value: "y", if: null };
    const refused = async (): Promise<void> => {
      const calls = [storage.commit([again]), storage.range("subscription:"), claim(storage.queue)];
      const [commit, range, claimed] = await Promise.all(calls.map(timed));
      expect(["unavailable", "uncertain"]).toContain(commit?.fault);
      expect([range?.fault, claimed?.fault]).toEqual(["unavailable", "unavailable"]);
    };
    await refused();
    const keys = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, "1000")).match(/\{c\}\S+/g) ?? [];
    expect(keys.length).toBeGreaterThan(5);
    const moved = (some: readonly string[]): Promise<string> =>
      from.command("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...some);
    await moved(keys.filter((_, i) => i % 2 === 0));
    await refused();
    const rest = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, "1000")).match(/\{c\}\S+/g) ?? [];
    await moved(rest);
    await refused();
    for (const node of [to, from]) await node.command("CLUSTER", "SETSLOT", slot, "NODE", toId);
    expect(await recovery(storage)).toBeLessThan(SOON_MS);
    await expect(storage.commit([again])).rejects.toBeInstanceOf(ConflictError);
    expect(await storage.range("subscription:")).toHaveLength(1);
    expect((await storage.queue.depth()).leased + (await claim(storage.queue)).length).toBe(1);
  });
});

describeRedis("redis() and other nodes", { concurrent: true }, () => {
  law("tells every node of changed subscriptions, and wakes it for what another has written", async (bench) => {
    const node = await bench.server();
    // Without the message it would look by itself, after hours.
    const hours = { clock: pacedClock((ms) => (ms >= 2_000 ? ms * 1_000 : ms)) };
    const [one, two] = [await bench.open({ url: node.url }), await bench.open({ url: node.url }, hours)];
    const told: string[] = [];
    two.watch((keys) => void told.push(...keys));
    while ((await claim(two.queue)).length > 0);
    const woken = two.queue.wake(new AbortController().signal);
    await one.commit([put("control:reload"), put("event:k:1")]);
    await until(async () => told.length > 0);
    expect(told).toEqual(["control:reload"]);
    await enqueue(one, due("a", 1, clock.now()));
    await woken;
    expect(await claim(two.queue)).toHaveLength(1);
  });

  law("notices before it sends that it has missed a message", async (bench) => {
    const node = await bench.server();
    const shim = bench.keep(await tcpShim(node.port));
    const [one, deaf] = [
      await bench.open({ url: node.url }),
      await bench.open({ url: `redis://127.0.0.1:${shim.port}` }),
    ];
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
