/** PgBouncer in transaction mode before a PostgreSQL: a connection is another session after each transaction. */
import { mkdtempSync, rmSync, writeFileSync, chmodSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "../../tools/free-port.ts";
import { findProgram } from "./needs.ts";
import { startServer } from "./server-process.ts";

/** @param sessions how many it opens to the server, which all clients share */
export async function startPgBouncer(
  target: number,
  sessions = 4,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), "relay-pgbouncer-"));
  chmodSync(folder, 0o755);
  const port = await freePort();
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(
    file,
    `[databases]
postgres = host=127.0.0.1 port=${target} user=relay
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 200
`,
  );
  const url = `postgres://relay@127.0.0.1:${port}/postgres`;
  const ready = async (): Promise<boolean> => {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    await client.end();
    return true;
  };
  const program = findProgram("pgbouncer") as string;
  // It refuses to run as root.
  const under = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
  const [command, ...args] = [...(process.getuid?.() === 0 ? under : []), program, "-q", file];
  const server = await startServer({ command, args, cwd: "/", ready });
  return {
    url,
    async [Symbol.asyncDispose]() {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
