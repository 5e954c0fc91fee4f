/** Makes the surroundings that storages are measured in: a context of their own, and Redis servers that end with the run. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import type { PluginContext } from "../../core/ports/plugin.ts";
import { systemClock } from "../../core/runtime/clock.ts";

const silent = (): void => {};
const refuse = (): never => {
  throw new Error("storages are handed no more than this");
};

export function context(dataDir: string): PluginContext {
  return {
    clock: systemClock(),
    log: { debug: silent, info: silent, warn: silent, error: silent },
    metrics: { count: silent, gauge: silent, observe: silent },
    connect: refuse,
    refused: async () => {},
    guess: refuse,
    secret: refuse,
    fetch: refuse,
    get storage(): never {
      return refuse();
    },
    keys: { seal: refuse, open: refuse, signToken: refuse, publicJwk: refuse },
    dataDir,
    configDir: dataDir,
  };
}

const servers: ChildProcess[] = [];

/** @returns its URL */
export async function redisServer(dir: string, appendfsync: "always" | "everysec"): Promise<string> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  const options = {
    port,
    bind: "127.0.0.1",
    dir,
    save: "",
    appendonly: "yes",
    appendfsync,
    appenddirname: `aof-${port}`,
  };
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn("redis-server", words, { stdio: "ignore" });
  servers.push(child);
  await once(child, "spawn");
  while (!(await answers(port)) && child.exitCode === null);
  return `redis://127.0.0.1:${port}`;
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

export async function endServers(): Promise<void> {
  for (const child of servers) {
    const gone = once(child, "exit");
    if (child.kill("SIGKILL")) await gone;
  }
}
