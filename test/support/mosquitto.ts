/** Real mosquitto servers, each with a port and a folder of its own, which a test may kill and start again. */
import { chmod, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../tools/free-port.ts";
import { findProgram } from "./needs.ts";
import { greet, startServer, type ServerProcess } from "./server-process.ts";
import { until } from "./until.ts";

export interface Mosquitto extends ServerProcess {
  readonly port: number;
  /** Resolves when what it has is on its disk. */
  save(): Promise<void>;
  /** Begins again with another list of rights: everybody may do everything, but for these topics. */
  deny(topics: readonly string[]): Promise<void>;
}

/** A CONNECT of MQTT 3.1.1, without a name; a server answers with a CONNACK. */
const HELLO = "\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00";

export async function startMosquitto(more: readonly string[] = []): Promise<Mosquitto> {
  const dir = await mkdtemp(join(tmpdir(), "relay-mosquitto-"));
  await chmod(dir, 0o777);
  const port = await freePort();
  const [config, rights, store] = [join(dir, "conf"), join(dir, "acl"), join(dir, "mosquitto.db")];
  // A pattern also holds for the sessions of clients that are not there.
  const grant = (topics: readonly string[]) =>
    writeFile(rights, [...topics.map((topic) => `topic deny ${topic}`), "pattern readwrite #", ""].join("\n"));
  await grant([]);
  const lines = [
    `listener ${port} 127.0.0.1`,
    `acl_file ${rights}`,
    "persistence true",
    `persistence_location ${dir}/`,
  ];
  const own = ["autosave_on_changes true", "autosave_interval 1", "max_queued_messages 0", "user root"];
  const anonymous = more.some((line) => line.startsWith("allow_anonymous")) ? [] : ["allow_anonymous true"];
  await writeFile(config, [...lines, ...own, ...anonymous, ...more, ""].join("\n"));
  const server = await startServer({
    command: findProgram("mosquitto") ?? "mosquitto",
    args: ["-c", config],
    ready: async () => (await greet(port, HELLO)).startsWith("\x20\x02"),
  });
  const written = async (): Promise<number> => (await stat(store).catch(() => undefined))?.mtimeMs ?? 0;
  return {
    port,
    get pid() {
      return server.pid;
    },
    kill: server.kill,
    start: server.start,
    restart: server.restart,
    pause: server.pause,
    resume: server.resume,
    async save() {
      const before = await written();
      process.kill(server.pid, "SIGUSR1");
      await until(async () => (await written()) > before);
    },
    async deny(topics) {
      await grant(topics);
      // It would read the list at a signal too, but then answers those that are connected no more.
      await server.restart();
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
