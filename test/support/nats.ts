/** Real NATS servers with JetStream, each with a port and a folder of its own, which a test may kill and start again. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram } from "./needs.ts";
import { freePort } from "../../tools/free-port.ts";
import { greet, startServer, type ServerProcess } from "./server-process.ts";

export interface NatsServer extends ServerProcess {
  readonly port: number;
  readonly url: string;
}

export async function startNats(args: readonly string[] = []): Promise<NatsServer> {
  const command = findProgram("nats");
  if (command === undefined) throw new Error("nats-server is not installed");
  const dir = await mkdtemp(join(tmpdir(), "relay-nats-"));
  const port = await freePort();
  const server = await startServer({
    command,
    args: ["--addr", "127.0.0.1", "--port", String(port), "--jetstream", "--store_dir", dir, ...args],
    // It says INFO to whom connects, and has read its streams by then.
    ready: async () => (await greet(port, "")).startsWith("INFO"),
  });
  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    get pid() {
      return server.pid;
    },
    kill: server.kill,
    start: server.start,
    restart: server.restart,
    pause: server.pause,
    resume: server.resume,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
