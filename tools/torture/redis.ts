// The Redis of a tortured relay: one server; or a master, its replica and a sentinel that lets the one follow the other.
import { join } from "node:path";
import { sleep } from "./process.ts";
import { openServer, type RedisServer } from "./redis-server.ts";

export type Blow = "kill" | "stop" | "hole";

export interface TorturedServer {
  /** The options of the storage that connect to it, as source text of a config. */
  readonly options: string;
  /** Strikes a server; returns what makes all as it was before, another master apart. */
  strike(blow: Blow, whom?: "master" | "replica"): Promise<() => Promise<void>>;
  /** Resets every connection. */
  reset(): void;
  /** Resolves when another one has become the master since the last blow; to false when it does not come to that. */
  promoted(): Promise<boolean>;
  /** How often another one became the master. */
  failovers(): number;
  /** From now on nobody is made master in the place of one that is only slow. */
  calm(): Promise<void>;
  end(): Promise<void>;
}

/** @returns what ends it */
export async function struck(
  server: Pick<RedisServer, "kill" | "begin" | "signal" | "hole" | "mend">,
  blow: Blow,
): Promise<() => Promise<void>> {
  switch (blow) {
    case "kill":
      await server.kill();
      return () => server.begin();
    case "stop":
      server.signal("SIGSTOP");
      return async () => server.signal("SIGCONT");
    case "hole":
      server.hole();
      return async () => server.mend();
  }
}

/** One server that syncs before it answers: what it acknowledged is there when it comes back. */
export async function openRedis(folder: string): Promise<TorturedServer> {
  const server = await openServer(folder);
  return {
    options: `url: "redis://127.0.0.1:${server.port}"`,
    strike: (blow) => struck(server, blow),
    reset: server.drop,
    promoted: async () => false,
    failovers: () => 0,
    calm: async () => undefined,
    end: server.end,
  };
}

/** A master that cannot be reached for so long is replaced. */
const DOWN_MS = 1_000;
/** Sentinels begin no second failover within twice this. */
const FAILOVER_MS = 1_500;
/** Longer than a run takes after its last fault. */
const CALM_MS = 600_000;
/** Longer than a sentinel ever took. */
const PATIENCE_MS = 15_000;
/** A sentinel on a machine that stood still believes nothing of what it sees for half a minute. */
const WHOLE_MS = 60_000;
/** So long may one that was named master be a replica, before it learns of it. */
const NAMED_MS = 2_000;

/**
 * Each of them is reached through its line only, by the relays, the sentinel and each other: one behind a black hole is
 * a master of its own for as long as it lasts. A commit counts when both have it (`replicas: 1`), so either may go.
 */
export async function openPair(folder: string): Promise<TorturedServer> {
  const one = await openServer(join(folder, "one"));
  const two = await openServer(join(folder, "two"));
  const replicate = (server: RedisServer, master: RedisServer): Promise<string> =>
    server.ask("REPLICAOF", "127.0.0.1", String(master.port));
  await replicate(two, one);
  const sentinel = await openServer(join(folder, "sentinel"), [
    `sentinel monitor mymaster 127.0.0.1 ${one.port} 1`,
    `sentinel down-after-milliseconds mymaster ${DOWN_MS}`,
    `sentinel failover-timeout mymaster ${FAILOVER_MS}`,
  ]);
  let master = one;
  let failovers = 0;
  const other = (server: RedisServer): RedisServer => (server === one ? two : one);
  const replication = (server: RedisServer): Promise<string> => server.ask("INFO", "replication");

  /** Whom the sentinel sends the relays to. */
  async function named(): Promise<RedisServer> {
    const said = await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster");
    const now = said.includes(`\r\n${two.port}\r\n`) ? two : said.includes(`\r\n${one.port}\r\n`) ? one : master;
    if (now !== master) failovers++;
    master = now;
    return now;
  }

  /** One master, whom the sentinel names, and a replica that has caught up with it; the sentinel knows of both. */
  async function whole(): Promise<void> {
    let replicaSince: number | undefined;
    for (const until = performance.now() + WHOLE_MS; performance.now() < until; await sleep(30)) {
      const watched = await sentinel.ask("SENTINEL", "MASTER", "mymaster");
      if (watched.includes("failover_in_progress")) continue;
      const first = await named();
      const second = other(first);
      const [own, its] = await Promise.all([replication(first), replication(second)]);
      if (own.includes("role:slave")) {
        replicaSince ??= performance.now();
        if (performance.now() - replicaSince > NAMED_MS) await first.ask("REPLICAOF", "NO", "ONE");
        continue;
      }
      replicaSince = undefined;
      const follows = its.includes("role:slave") && its.includes(`master_port:${first.port}\r`);
      // A sentinel sends back one that comes again, too, but takes its time.
      if (its !== "" && !follows) await replicate(second, first);
      const known = await sentinel.ask("SENTINEL", "REPLICAS", "mymaster");
      const all = own.includes("role:master") && follows && its.includes("master_link_status:up");
      if (all && known.includes(String(second.port)) && !/_down|disconnected/.test(known + watched)) return;
    }
    throw new Error("the two servers of Redis did not find together again");
  }

  await whole();
  return {
    options: `sentinels: [{ host: "127.0.0.1", port: ${sentinel.port} }], replicas: 1`,
    async strike(blow, whom = "master") {
      const first = await named();
      const heal = await struck(whom === "master" ? first : other(first), blow);
      return async () => {
        await heal();
        await whole();
      };
    },
    reset() {
      one.drop();
      two.drop();
    },
    async promoted() {
      const before = failovers;
      for (const until = performance.now() + PATIENCE_MS; performance.now() < until; await sleep(30)) {
        await named();
        if (failovers > before) return true;
      }
      return false;
    },
    failovers: () => failovers,
    async calm() {
      await sentinel.ask("SENTINEL", "SET", "mymaster", "down-after-milliseconds", String(CALM_MS));
      await whole();
    },
    async end() {
      for (const server of [sentinel, one, two]) await server.end();
    },
  };
}
