/** Real Redis servers on ports of their own, which a test may kill, stop and start again. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../tools/free-port.ts";
import { findProgram } from "./needs.ts";
import { eventually } from "./until.ts";

export interface RedisOptions {
  /** Lines of its configuration: `{ appendonly: "yes" }`. */
  readonly config?: Readonly<Record<string, string>>;
  readonly port?: number;
  readonly sentinel?: boolean;
}

export interface RedisServer extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly dir: string;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  /** Begins again on the same port and data; for one that was killed. */
  start(): Promise<void>;
  /** SIGSTOP and SIGCONT: it is there and does not answer. */
  pause(): void;
  resume(): void;
  /** One command, by hand: `command("CONFIG", "SET", "maxmemory", "1")` → the raw reply. */
  command(...parts: readonly string[]): Promise<string>;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const program = findProgram("redis");
  if (program === undefined) throw new Error("redis-server is not installed");
  const dir = await mkdtemp(join(tmpdir(), "relay-redis-"));
  const port = options.port ?? (await freePort());
  const config = {
    port: String(port),
    bind: "127.0.0.1",
    dir,
    save: "",
    appendonly: "no",
    "repl-diskless-sync-delay": "0",
    ...options.config,
  };
  const file = join(dir, "redis.conf");
  const { writeFile } = await import("node:fs/promises");
  const lines = Object.entries(config).filter(([name]) => options.sentinel !== true || !SERVER_ONLY.has(name));
  await writeFile(
    file,
    lines.map(([name, value]) => `${name.replace(/#\d+$/, "")} ${value === "" ? '""' : value}`).join("\n"),
  );
  let child: ChildProcess;

  async function start(): Promise<void> {
    child = spawn(program as string, [file, ...(options.sentinel === true ? ["--sentinel"] : [])], { stdio: "ignore" });
    running.add(child);
    child.once("exit", () => running.delete(child));
    for (;;) {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      const reply = await ask(port, ["PING"]).catch(() => "");
      if (reply.startsWith("+PONG")) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async function kill(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    child.kill("SIGCONT");
    await gone;
  }

  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    dir,
    kill,
    start,
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    command: (...parts) => ask(port, parts),
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Servers know each other within this time even on a machine that does much else, ms. */
const MOST_MS = 20_000;

/** Calls at most once in `ms`, at the first time at once. */
function every(ms: number, call: () => Promise<void>): () => Promise<void> {
  let last = -Infinity;
  return async () => {
    if (performance.now() - last < ms) return;
    last = performance.now();
    await call();
  };
}

const SERVER_ONLY = new Set(["save", "appendonly", "repl-diskless-sync-delay"]);

/** A replica that has caught up with its master. */
export async function startReplica(master: RedisServer, options: RedisOptions = {}): Promise<RedisServer> {
  const config = { ...options.config, replicaof: `127.0.0.1 ${master.port}` };
  await using started = new AsyncDisposableStack();
  const replica = started.use(await startRedis({ ...options, config }));
  const info = (): Promise<string> => replica.command("INFO", "replication");
  await eventually("the replica has caught up", async () => (await info()).includes("master_link_status:up"), MOST_MS);
  started.move();
  return replica;
}

/** A sentinel that watches `master` as "mymaster" and fails over within a second or two. */
export async function startSentinel(master: RedisServer, quorum = 1): Promise<RedisServer> {
  const config = {
    "sentinel monitor": `mymaster 127.0.0.1 ${master.port} ${quorum}`,
    "sentinel down-after-milliseconds": "mymaster 500",
    "sentinel failover-timeout": "mymaster 2000",
  };
  await using started = new AsyncDisposableStack();
  const sentinel = started.use(await startRedis({ sentinel: true, config }));
  const replicas = (): Promise<string> => sentinel.command("SENTINEL", "replicas", "mymaster");
  await eventually("the sentinel knows a replica", async () => (await replicas()).includes("flags"), MOST_MS);
  started.move();
  return sentinel;
}

/** A cluster of so many masters, which share all slots. */
export async function startCluster(size = 3): Promise<readonly RedisServer[]> {
  // By itself a node takes its port + 10,000 for the others, where an outgoing connection of anybody may stand.
  const buses = await Promise.all(Array.from({ length: size }, () => freePort()));
  await using started = new AsyncDisposableStack();
  const nodes: RedisServer[] = [];
  for (const bus of buses) {
    const config = { "cluster-enabled": "yes", "cluster-node-timeout": "1000", "cluster-port": String(bus) };
    nodes.push(started.use(await startRedis({ config })));
  }
  for (const [i, node] of nodes.entries()) {
    const first = Math.floor((16_384 * i) / size);
    const last = Math.floor((16_384 * (i + 1)) / size) - 1;
    await node.command("CLUSTER", "ADDSLOTSRANGE", String(first), String(last));
    await node.command("CLUSTER", "SET-CONFIG-EPOCH", String(i + 1));
  }
  const info = (node: RedisServer): Promise<string> => node.command("CLUSTER", "INFO");
  const [seed, ...others] = nodes as [RedisServer, ...RedisServer[]];
  // A node forgets within a second whom it has not been able to greet.
  const meet = every(1_000, async () => {
    for (const node of others) {
      if ((await info(node)).includes(`cluster_known_nodes:${size}`)) continue;
      await node.command("CLUSTER", "MEET", "127.0.0.1", String(seed.port), String(buses[0]));
    }
  });
  const complete = (text: string): boolean =>
    text.includes("cluster_state:ok") && text.includes(`cluster_known_nodes:${size}`);
  const agreed = async (): Promise<boolean> => {
    await meet();
    return (await Promise.all(nodes.map(info))).every(complete);
  };
  await eventually("the nodes are a cluster", agreed, MOST_MS);
  started.move();
  return nodes;
}

/** Sends one command on a connection of its own and gives back what came first. */
function ask(port: number, parts: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    const done = (): void => {
      socket.destroy();
      resolve(text);
    };
    socket.on("error", reject);
    socket.on("close", done);
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (isWhole(text)) done();
    });
    socket.write(`*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join("")}`);
  });
}

/** Whole enough to look into: a line, or a bulk string with all its bytes; of lists, the first packet does. */
function isWhole(text: string): boolean {
  const bulk = /^\$(\d+)\r\n/.exec(text);
  if (bulk === null) return text.includes("\r\n");
  return text.length >= bulk[0].length + Number(bulk[1]);
}
