/** Real MariaDB servers, each with a port and a folder of its own, which a test may kill and start again. */
import { execFile, execFileSync } from "node:child_process";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import mysql from "mysql2/promise";
import { freePort } from "../../tools/free-port.ts";
import { findProgram } from "./needs.ts";
import { startServer, type ServerProcess } from "./server-process.ts";

export interface MysqlServer extends ServerProcess {
  readonly port: number;
  readonly url: string;
  /** Runs statements on a connection that is kept, and made again where it broke. */
  query(sql: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
}

export interface MysqlServerOptions {
  /** PEM. Then only TLS and this password let `relay` in, under the name localhost. */
  readonly secured?: { readonly cert: string; readonly key: string; readonly password: string };
}

/** The server refuses to run as root; Debian's package makes this user. */
const USER = "mysql";
export const DATABASE = "shop";

/** Takes some seconds: the files of an empty database are made. */
export async function startMysql({ secured }: MysqlServerOptions = {}): Promise<MysqlServer> {
  const program = findProgram("mariadb");
  if (program === undefined) throw new Error("mariadb-server is not installed");
  const dir = await mkdtemp(join(tmpdir(), "relay-mysql-"));
  const isRoot = process.getuid?.() === 0;
  const id = (what: string): number => Number(execFileSync("id", [what, USER], { encoding: "utf8" }));
  const own = async (path: string): Promise<void> => {
    if (isRoot) await chown(path, id("-u"), id("-g"));
  };
  await own(dir);
  const data = join(dir, "data");
  const [init, socket] = [join(dir, "init.sql"), join(dir, "socket")];
  const login = secured === undefined ? "''" : `'${secured.password}' REQUIRE SSL`;
  // One statement a line.
  await writeFile(
    init,
    `CREATE DATABASE IF NOT EXISTS ${DATABASE};
CREATE OR REPLACE USER relay@'127.0.0.1' IDENTIFIED BY ${login};
GRANT ALL ON *.* TO relay@'127.0.0.1';
CREATE OR REPLACE USER tester@localhost IDENTIFIED BY '';
GRANT ALL ON *.* TO tester@localhost WITH GRANT OPTION;\n`,
  );
  const ownership = isRoot ? [`--user=${USER}`] : [];
  const install = ["--no-defaults", `--datadir=${data}`, "--auth-root-authentication-method=normal", "--skip-test-db"];
  await promisify(execFile)("mariadb-install-db", [...install, ...ownership]);
  const port = await freePort();
  const tls: string[] = [];
  for (const name of ["cert", "key"] as const) {
    if (secured === undefined) continue;
    await writeFile(join(dir, name), secured[name], { mode: 0o600 });
    await own(join(dir, name));
    tls.push(`--ssl-${name}=${join(dir, name)}`);
  }
  const settings = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--performance-schema=OFF"];
  const args = [
    "--no-defaults",
    `--datadir=${data}`,
    `--port=${port}`,
    "--bind-address=127.0.0.1",
    `--socket=${socket}`,
  ];

  let kept: Promise<mysql.Connection> | undefined;
  const connect = async (): Promise<mysql.Connection> => {
    const client = await mysql.createConnection({
      ...{ socketPath: socket, user: "tester", database: DATABASE, multipleStatements: true },
      ...{ dateStrings: true, supportBigNumbers: true, bigNumberStrings: true, charset: "utf8mb4" },
    });
    client.on("error", () => {});
    return client;
  };
  const query: MysqlServer["query"] = async (sql, values) => {
    try {
      const client = await (kept ??= connect());
      const [rows] = await client.query(sql, values as unknown[]);
      return Array.isArray(rows) ? (rows as unknown as readonly Record<string, unknown>[]) : [];
    } catch (error) {
      const broken = kept;
      kept = undefined;
      await broken?.then((client) => client.destroy()).catch(() => undefined);
      throw error;
    }
  };
  const server = await startServer({
    command: program,
    args: [...args, ...ownership, ...settings, ...tls, `--init-file=${init}`],
    cwd: "/",
    ready: async () => (await query("SELECT 1")).length === 1,
  });
  const at = secured === undefined ? "127.0.0.1" : "localhost";
  const password = secured === undefined ? "" : `:${encodeURIComponent(secured.password)}`;
  return {
    ...server,
    port,
    url: `mysql://relay${password}@${at}:${port}/${DATABASE}`,
    query,
    get pid() {
      return server.pid;
    },
    async [Symbol.asyncDispose]() {
      await kept?.then((client) => client.end()).catch(() => undefined);
      await server.kill();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
