/** Real RabbitMQ servers, each with a port, a node name and a folder of its own, which a test may kill and start again. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram } from "./needs.ts";
import { freePort } from "../../tools/free-port.ts";
import { greet, startServer, type ServerProcess } from "./server-process.ts";
import { until } from "./until.ts";

export interface RabbitServer extends ServerProcess {
  readonly port: number;
  readonly url: string;
  /**
   * Resolves once the definition of a queue is in a file, where a kill leaves it. RabbitMQ confirms a durable queue some
   * seconds before, and a kill in between takes the queue with it, and all its messages.
   */
  wrote(queue: string): Promise<void>;
}

export interface RabbitOptions {
  /** Lines of rabbitmq.conf. */
  readonly config?: readonly string[];
}

/** Debian's command in the PATH runs `su`; the script behind it runs as anybody. */
const SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/** Resolves to true when a file of the database's own has the name; the folders beside them are those of messages. */
async function wrote(data: string, name: string): Promise<boolean> {
  for (const node of await readdir(data, { withFileTypes: true })) {
    if (!node.isDirectory()) continue;
    for (const file of await readdir(join(data, node.name), { withFileTypes: true })) {
      // The database may put a file away meanwhile.
      const bytes = file.isFile() && (await readFile(join(data, node.name, file.name)).catch(() => undefined));
      if (bytes && bytes.includes(name)) return true;
    }
  }
  return false;
}

/** Takes some seconds: Erlang starts, and the node makes its database. */
export async function startRabbit(options: RabbitOptions = {}): Promise<RabbitServer> {
  if (findProgram("rabbitmq") === undefined) throw new Error("rabbitmq-server is not installed");
  const dir = await mkdtemp(join(tmpdir(), "relay-rabbitmq-"));
  // Erlang names the other side of a connection by ports: an epmd of its own keeps servers of several tests apart, and
  // leaves no daemon behind.
  const [port, distribution, names] = [await freePort(), await freePort(), await freePort()];
  const config = [`listeners.tcp.default = 127.0.0.1:${port}`, "disk_free_limit.absolute = 1MB", "log.console = true"];
  await writeFile(join(dir, "rabbitmq.conf"), [...config, ...(options.config ?? []), ""].join("\n"));
  await writeFile(join(dir, "enabled_plugins"), "[].\n");
  for (const folder of ["home", "log"]) await mkdir(join(dir, folder));
  const env = {
    PATH: `${process.env["PATH"] ?? ""}:/usr/bin:/bin`,
    LANG: "C.UTF-8",
    HOME: join(dir, "home"),
    ERL_EPMD_PORT: String(names),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_CONF_ENV_FILE: "/dev/null",
    RABBITMQ_NODENAME: `relay${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_MNESIA_BASE: join(dir, "data"),
    RABBITMQ_LOG_BASE: join(dir, "log"),
    RABBITMQ_CONFIG_FILE: join(dir, "rabbitmq.conf"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(dir, "enabled_plugins"),
    RABBITMQ_GENERATED_CONFIG_DIR: join(dir, "generated"),
    RABBITMQ_PID_FILE: join(dir, "pid"),
    // One process instead of a shell that waits for another: SIGKILL hits the server itself.
    RABBITMQ_ALLOW_INPUT: "1",
    RABBITMQ_SERVER_START_ARGS: "-noinput",
  };
  const epmd = await startServer({
    command: "epmd",
    args: ["-port", String(names), "-address", "127.0.0.1"],
    env,
    // The request for names: length 1, then "n".
    ready: async () => (await greet(names, "\0\u0001n")).length > 0,
  });
  const server = await startServer({
    command: SERVER,
    args: [],
    env,
    cwd: dir,
    // The port opens when the node has recovered all that it had.
    ready: async () => (await greet(port, "AMQP\0\0\t\u0001")).length > 8,
  }).catch(async (error: unknown) => {
    await epmd[Symbol.asyncDispose]();
    throw error;
  });
  return {
    port,
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    get pid() {
      return server.pid;
    },
    kill: server.kill,
    start: server.start,
    restart: server.restart,
    wrote: (queue) => until(() => wrote(join(dir, "data"), queue)),
    pause: server.pause,
    resume: server.resume,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await epmd[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
