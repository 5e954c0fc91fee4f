// The PostgreSQL of a tortured relay: one server; or a primary and its synchronous standby, which we promote.
import { join } from "node:path";
import { openPostgresServer, type PostgresServer } from "./postgres-server.ts";
import { sleep } from "./process.ts";
import { struck, type TorturedServer } from "./redis.ts";

const hosts = (...servers: readonly PostgresServer[]): string =>
  `url: "postgres://relay@${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}/postgres"`;

export async function openPostgres(folder: string): Promise<TorturedServer> {
  const server = await openPostgresServer(folder);
  return {
    options: hosts(server),
    strike: (blow) => struck(server, blow),
    reset: server.drop,
    promoted: async () => false,
    failovers: () => 0,
    calm: async () => undefined,
    end: server.end,
  };
}

/** Longer than a standby takes to catch up. */
const WHOLE_MS = 60_000;

/**
 * A commit counts when the standby has it too, so either may go. The one that was the primary is killed and copied anew before
 * anybody can write to it again: what it has beyond the other was acknowledged to nobody.
 */
export async function openPostgresPair(folder: string): Promise<TorturedServer> {
  const one = await openPostgresServer(join(folder, "one"));
  const two = await openPostgresServer(join(folder, "two"), one.port);
  let [primary, standby] = [one, two];
  let failovers = 0;
  let deposed: PostgresServer | undefined;

  async function whole(): Promise<void> {
    const streams = "select count(*) from pg_stat_replication where state = 'streaming'";
    for (const until = performance.now() + WHOLE_MS; performance.now() < until; await sleep(30))
      if ((await primary.ask(streams)) === "1") break;
    await primary.ask("alter system set synchronous_standby_names = '*'");
    await primary.ask("select pg_reload_conf()");
  }

  await whole();
  return {
    options: hosts(one, two),
    async strike(blow, whom = "master") {
      const server = whom === "master" ? primary : standby;
      const heal = await struck(server, blow);
      return async () => {
        if (deposed === server) {
          await server.kill();
          server.mend();
          await server.follow(primary.port);
          deposed = undefined;
        } else await heal();
        await whole();
      };
    },
    reset() {
      one.drop();
      two.drop();
    },
    async promoted() {
      deposed = primary;
      [primary, standby] = [standby, primary];
      // The copy has the setting of the one that it was made of: it is alone now.
      await primary.ask("alter system set synchronous_standby_names = ''");
      await primary.ask("select pg_promote()");
      await primary.ask("select pg_reload_conf()");
      failovers++;
      return true;
    },
    failovers: () => failovers,
    calm: whole,
    async end() {
      for (const server of [two, one]) await server.end();
    },
  };
}
