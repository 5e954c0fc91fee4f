// One PostgreSQL that may be killed, stopped and cut off: processes of our own, and a line to it that we hold.
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { freePort } from "../free-port.ts";
import { openLine, type Line } from "./line.ts";
import { sleep, start, type Started } from "./process.ts";

/** Debian keeps the programs of each version apart; the server refuses to run as root, and its package makes this user. */
const VERSIONS = "/usr/lib/postgresql";
const USER = "postgres";
const ANSWER_MS = 2_000;

export interface PostgresServer extends Pick<Line, "port" | "hole" | "drop" | "mend"> {
  begin(): Promise<void>;
  kill(): Promise<void>;
  /** To all of its processes. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Begins anew, as a copy of the one on this port, which it follows. */
  follow(port: number): Promise<void>;
  /** The first field of the first row, not through the line; undefined when there is no answer in time. */
  ask(sql: string): Promise<string | undefined>;
  end(): Promise<void>;
}

const isRoot = process.getuid?.() === 0;
const env = { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8" };
const under = (command: readonly string[]): readonly string[] =>
  isRoot ? ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", ...command] : command;
/** Our line must go on meanwhile. */
async function run(command: readonly string[]): Promise<void> {
  const [program = "", ...args] = under(command);
  await promisify(execFile)(program, args, { env, cwd: "/" });
}

/** @param follows the port of the one that it is a copy of, and follows */
export async function openPostgresServer(folder: string, follows?: number): Promise<PostgresServer> {
  const newest = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a))[0] : undefined;
  if (newest === undefined) throw new Error("postgresql is not installed");
  const bin = (name: string): string => join(VERSIONS, newest, "bin", name);
  mkdirSync(folder, { recursive: true });
  chmodSync(dirname(folder), 0o755);
  chmodSync(dirname(dirname(folder)), dirname(dirname(folder)) === "/tmp" ? 0o1777 : 0o755);
  const id = (what: string): number => Number(execFileSync("id", [what, USER], { encoding: "utf8" }));
  if (isRoot) chownSync(folder, id("-u"), id("-g"));
  const data = join(folder, "data");
  const own = await freePort();
  const line = await openLine(own);
  let server: Started | undefined;

  async function ask(sql: string): Promise<string | undefined> {
    const client = new pg.Client({
      ...{ host: "127.0.0.1", port: own, user: "relay", database: "postgres" },
      ...{ connectionTimeoutMillis: ANSWER_MS, query_timeout: ANSWER_MS },
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<string[]>({ text: sql, rowMode: "array" });
      return String(rows[0]?.[0]);
    } catch {
      return undefined;
    } finally {
      void client.end().catch(() => undefined);
    }
  }

  async function begin(): Promise<void> {
    const settings = [`port=${own}`, "listen_addresses=127.0.0.1", `unix_socket_directories=${folder}`];
    for (;;) {
      const made = start(under([bin("postgres"), "-D", data, ...settings.flatMap((one) => ["-c", one])]), {
        env,
        cwd: "/",
      });
      server = made;
      while (made.alive()) {
        if ((await ask("select 1")) === "1") return;
        await sleep(20);
      }
      // The children of one that was killed hold its memory for a moment.
      if (!/shared memory|lock file/.test(made.said())) throw new Error(`postgres ended: ${made.said()}`);
    }
  }
  function signal(name: NodeJS.Signals): void {
    for (const pid of childrenOf(server?.pid ?? 0)) {
      try {
        process.kill(pid, name);
      } catch {
        // It has ended meanwhile.
      }
    }
    server?.signal(name);
  }
  async function kill(): Promise<void> {
    server?.signal("SIGKILL");
    signal("SIGCONT");
    await server?.gone;
  }
  async function follow(port: number): Promise<void> {
    await kill();
    rmSync(data, { recursive: true, force: true });
    await run([
      bin("pg_basebackup"),
      "-h",
      "127.0.0.1",
      "-p",
      String(port),
      "-U",
      "relay",
      "-D",
      data,
      "-R",
      "-c",
      "fast",
    ]);
    await begin();
  }

  if (follows === undefined) {
    await run([bin("initdb"), "-D", data, "-U", "relay", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"]);
    await begin();
  } else await follow(follows);
  const { port, hole, drop, mend } = line;
  return {
    ...{ port, hole, drop, mend, begin, kill, signal, follow, ask },
    async end() {
      line.end();
      await kill();
    },
  };
}

function childrenOf(parent: number): readonly number[] {
  const isChild = (entry: string): boolean => {
    try {
      const text = readFileSync(`/proc/${entry}/stat`, "utf8");
      return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[1]) === parent;
    } catch {
      return false;
    }
  };
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && isChild(entry))
    .map(Number);
}
