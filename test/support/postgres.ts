/** Real PostgreSQL servers, each with a port and a folder of its own, which a test may kill and start again. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { freePort } from "../../tools/free-port.ts";
import { startServer, type ServerProcess } from "./server-process.ts";

export interface PostgresServer extends ServerProcess {
  readonly port: number;
  readonly url: string;
  /** Runs statements on a connection that is kept, and made again where it broke. */
  query(sql: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
  /** A connection of its own. */
  connect(): Promise<pg.Client>;
}

/** Statements of docs/sources.md, for a table of another name. */
export function documented(what: "outbox" | "insert" | "mark" | "feed", table: string): string {
  const page = readFileSync(new URL("../../docs/sources.md", import.meta.url), "utf8");
  const [, sql] = new RegExp(`^\`\`\`sql ${what}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  if (sql === undefined) throw new Error(`docs/sources.md has no sql ${what}`);
  return sql.replaceAll(what === "feed" ? "feed" : "outbox", table);
}

/** Returns how many transactions the server has begun: each poll is one. */
export async function polls(server: PostgresServer): Promise<number> {
  await server.query("SELECT pg_stat_force_next_flush()");
  const [row] = await server.query("SELECT sum(xact_commit)::int AS n FROM pg_stat_database");
  return Number(row?.["n"]);
}

/** Debian keeps the programs of each version apart and out of the PATH. */
const VERSIONS = "/usr/lib/postgresql";
/** The server refuses to run as root; Debian's package makes this user. */
const USER = "postgres";

function programs(): string {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions
    .map((version) => join(VERSIONS, version, "bin"))
    .find((dir) => existsSync(join(dir, "initdb")));
  if (found === undefined) throw new Error("postgresql is not installed");
  return found;
}

export interface PostgresOptions {
  /** PEM. Then only TLS and this password let anybody in. */
  readonly secured?: { readonly cert: string; readonly key: string; readonly ca: string; readonly password: string };
  /** More settings, as `fsync=on`. */
  readonly settings?: readonly string[];
  /** More variables of its processes. */
  readonly env?: Readonly<Record<string, string>>;
  /** The folder in which its own is made. */
  readonly within?: string;
  /** It begins as a copy of the server on this port, and follows it. */
  readonly follows?: number;
}

/** Takes some seconds: the files of an empty database are made. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const { secured, follows } = options;
  const bin = programs();
  const root = process.getuid?.() === 0;
  const under = (command: string, args: readonly string[]): [string, readonly string[]] =>
    root ? ["setpriv", [`--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", command, ...args]] : [command, args];
  const dir = await mkdtemp(join(options.within ?? tmpdir(), "relay-postgres-"));
  const id = (what: string): number => Number(execFileSync("id", [what, USER], { encoding: "utf8" }));
  if (root) await chown(dir, id("-u"), id("-g"));
  const data = join(dir, "data");
  const password = join(dir, "password");
  if (secured !== undefined) await writeFile(password, secured.password, { mode: 0o644 });
  const env = { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8" };
  const making = [
    "-D",
    data,
    "-U",
    "relay",
    ...(secured ? ["--auth=scram-sha-256", `--pwfile=${password}`] : ["--auth=trust"]),
    "--no-sync",
    "-E",
    "UTF8",
    "--locale=C.UTF-8",
  ];
  const copying = [
    "-h",
    "127.0.0.1",
    "-p",
    String(follows),
    "-U",
    "relay",
    "-D",
    data,
    "-R",
    "-c",
    "fast",
    "--no-sync",
  ];
  const [maker, makerArgs] =
    follows === undefined ? under(join(bin, "initdb"), making) : under(join(bin, "pg_basebackup"), copying);
  await promisify(execFile)(maker, [...makerArgs], { env, cwd: "/" });
  const port = await freePort();
  const own = secured === undefined ? undefined : await secure(dir, secured, root);
  const url =
    own === undefined
      ? `postgres://relay@127.0.0.1:${port}/postgres`
      : `postgres://relay:${encodeURIComponent(own.password)}@127.0.0.1:${port}/postgres?sslmode=verify-full&sslrootcert=${own.caFile}`;

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    return client;
  }
  let kept: Promise<pg.Client> | undefined;
  const query: PostgresServer["query"] = async (sql, values) => {
    try {
      const client = await (kept ??= connect());
      return (await client.query<Record<string, unknown>>(sql, values && [...values])).rows;
    } catch (error) {
      const broken = kept;
      kept = undefined;
      await broken?.then((client) => client.end()).catch(() => undefined);
      throw error;
    }
  };

  const settings = [`port=${port}`, "listen_addresses=127.0.0.1", `unix_socket_directories=${dir}`, "fsync=off"];
  settings.push(...(options.settings ?? []));
  if (own !== undefined) {
    settings.push("ssl=on", `ssl_cert_file=${own.certFile}`, `ssl_key_file=${own.keyFile}`);
    settings.push(`hba_file=${own.hbaFile}`);
  }
  // Not of the process that becomes another user: a preloaded library would make its files as root.
  const variables = Object.entries(options.env ?? {}).map(([name, value]) => `${name}=${value}`);
  const [command, args] = under("env", [
    ...variables,
    join(bin, "postgres"),
    "-D",
    data,
    ...settings.flatMap((one) => ["-c", one]),
  ]);
  const ready = async (): Promise<boolean> => (await query("SELECT 1")).length === 1;
  const server = await startServer({ command, args, env, cwd: "/", ready });
  return {
    ...server,
    port,
    url,
    query,
    connect,
    get pid() {
      return server.pid;
    },
    async start() {
      for (;;) {
        try {
          return await server.start();
        } catch (error) {
          // Its children notice a moment later that it was killed, and hold its memory until then.
          if (!/shared memory|lock file/.test(String(error))) throw error;
        }
      }
    },
    async [Symbol.asyncDispose]() {
      await kept?.then((client) => client.end()).catch(() => undefined);
      await server.kill();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Writes what a server needs that takes no connection but those over TLS with a password. */
async function secure(
  dir: string,
  { cert, key, ca, password }: NonNullable<PostgresOptions["secured"]>,
  root: boolean,
) {
  const file = (name: string): string => join(dir, name);
  const files = {
    certFile: file("cert.pem"),
    keyFile: file("key.pem"),
    caFile: file("ca.pem"),
    hbaFile: file("hba.conf"),
  };
  await writeFile(files.certFile, cert);
  await writeFile(files.caFile, ca);
  await writeFile(files.hbaFile, "hostssl all all 127.0.0.1/32 scram-sha-256\n");
  await writeFile(files.keyFile, key, { mode: 0o600 });
  const id = (what: string): number => Number(execFileSync("id", [what, USER], { encoding: "utf8" }));
  if (root) await chown(files.keyFile, id("-u"), id("-g"));
  return { ...files, password };
}
