// The servers of other systems that sources and transports are measured with: the ones that the tests start.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

export const SYSTEMS = ["PostgreSQL", "MariaDB", "RabbitMQ", "NATS", "Redis", "Kafka"] as const;
export type System = (typeof SYSTEMS)[number];

export interface Servers {
  /** The process that has started them. */
  readonly pid: number;
  /** Where it answers, or why it is not here. */
  readonly at: Readonly<Record<System, { readonly url?: string; readonly missing?: string }>>;
  /** Ends them; all that they hold is gone then. */
  stop(): Promise<void>;
}

/**
 * Starts all that are installed. Takes some seconds. The script that starts them ends them when this process ends, however it
 * ends: its standard input is closed then.
 * @throws Error when the script ends
 */
export async function startServers(): Promise<Servers> {
  const script = resolve(import.meta.dirname, "../../test/brokers/run.ts");
  const child = spawn(process.execPath, [script, "--json"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const at: Partial<Servers["at"]> = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const { name, ...found } = JSON.parse(line) as { name: System; url?: string; missing?: string };
    Object.assign(at, { [name]: found });
    if (Object.keys(at).length === SYSTEMS.length) break;
  }
  if (Object.keys(at).length < SYSTEMS.length) throw new Error("the servers were not started");
  return {
    pid: child.pid as number,
    at: at as Servers["at"],
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}
