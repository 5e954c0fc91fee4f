// A PostgreSQL of the benchmark's own, which syncs before it answers, and the CPU time of all its processes.
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, chownSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../tools/free-port.ts";
import { own } from "../throughput/process.ts";

const VERSIONS = "/usr/lib/postgresql";
const USER = "postgres";

export interface BenchPostgres {
  readonly url: string;
  /** µs, of the server and everything that it has started. */
  cpu(): number;
  /** Bytes of write-ahead log since it was made. */
  logBytes(): Promise<number>;
}

/** @param settings as `shared_buffers=256MB`, beside the defaults */
export async function postgresServer(dir: string, settings: readonly string[] = []): Promise<BenchPostgres> {
  const newest = readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a))[0];
  const bin = join(VERSIONS, newest ?? "", "bin");
  const isRoot = process.getuid?.() === 0;
  const data = join(dir, "postgres");
  mkdirSync(data, { recursive: true });
  if (isRoot) {
    const id = (what: string): number => Number(execFileSync("id", [what, USER], { encoding: "utf8" }));
    chownSync(data, id("-u"), id("-g"));
    for (let at = dir; at !== "/" && at !== "/tmp" && at !== "/dev/shm"; at = join(at, "..")) chmodSync(at, 0o755);
  }
  const as = (command: string, args: readonly string[]): [string, string[]] =>
    isRoot
      ? ["setpriv", [`--reuid=${USER}`, `--regid=${USER}`, "--clear-groups", command, ...args]]
      : [command, [...args]];
  const env = { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8" };
  const at = join(data, "data");
  const made = as(join(bin, "initdb"), ["-D", at, "-U", "relay", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"]);
  execFileSync(...made, { env, cwd: "/", stdio: "ignore" });
  const port = await freePort();
  const own_ = [`port=${port}`, "listen_addresses=127.0.0.1", `unix_socket_directories=${data}`, ...settings];
  const child = spawn(...as(join(bin, "postgres"), ["-D", at, ...own_.flatMap((one) => ["-c", one])]), {
    env,
    cwd: "/",
    stdio: "ignore",
  });
  own(child);
  const { default: pg } = await import("pg");
  const url = `postgres://relay@127.0.0.1:${port}/postgres`;
  for (;;) {
    const client = new pg.Client({ connectionString: url });
    const isUp = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => undefined);
    if (isUp) break;
    if (child.exitCode !== null) throw new Error("PostgreSQL ended");
  }
  async function logBytes(): Promise<number> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<{ bytes: string }>("select pg_current_wal_lsn() - '0/0' as bytes");
    await client.end();
    return Number(rows[0]?.bytes);
  }
  return { url, cpu: () => treeMicroseconds(child.pid as number), logBytes };
}

/** What the server used, what its ended children used, and what those that live have used. In hundredths of a second. */
function treeMicroseconds(root: number): number {
  let ticks = 0;
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry) || !existsSync(`/proc/${entry}/stat`)) continue;
    let text: string;
    try {
      text = readFileSync(`/proc/${entry}/stat`, "utf8");
    } catch {
      continue;
    }
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [, parent = 0] = fields;
    if (Number(entry) === root) ticks += (fields[11] ?? 0) + (fields[12] ?? 0) + (fields[13] ?? 0) + (fields[14] ?? 0);
    else if (parent === root) ticks += (fields[11] ?? 0) + (fields[12] ?? 0);
  }
  return ticks * 10_000;
}
