/**
 * Real Kafka servers of one node (KRaft), from the jars that Apache publishes. Debian has no package of Kafka, so that
 * these checks run only where KAFKA_HOME names a folder whose `libs/` holds the jars, as Apache's archive has them.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findProgram } from "./needs.ts";
import { freePort } from "../../tools/free-port.ts";
import { startServer, type ServerProcess } from "./server-process.ts";

export interface KafkaServer extends ServerProcess {
  readonly port: number;
  readonly broker: string;
}

/** Why there is no Kafka here, or undefined where there is; even under CI=true it may be missing. */
export function needsKafka(): string | undefined {
  const home = process.env["KAFKA_HOME"];
  if (home === undefined) return "needs KAFKA_HOME, a folder whose libs/ holds Kafka's published jars (3.3 or newer)";
  if (!existsSync(join(home, "libs"))) return `needs libs/ in KAFKA_HOME, which is ${home}`;
  return findProgram("java") === undefined ? "needs java (Debian's package default-jre-headless)" : undefined;
}

const run = promisify(execFile);

/** @param at where its plain listener is, when the settings name listeners of their own */
export async function startKafka(settings: Readonly<Record<string, string>> = {}, at?: number): Promise<KafkaServer> {
  const missing = needsKafka();
  if (missing !== undefined) throw new Error(missing);
  const dir = await mkdtemp(join(tmpdir(), "relay-kafka-"));
  const [port, controller] = [at ?? (await freePort()), await freePort()];
  const properties = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": `1@127.0.0.1:${controller}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    "advertised.listeners": `PLAINTEXT://127.0.0.1:${port}`,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "log.dirs": join(dir, "data"),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    ...settings,
  };
  const file = join(dir, "server.properties");
  await writeFile(
    file,
    Object.entries(properties)
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
  );
  const java = findProgram("java") as string;
  const classes = ["-Xmx256m", "-cp", `${process.env["KAFKA_HOME"] as string}/libs/*`];
  await run(java, [...classes, "kafka.tools.StorageTool", "format", "-t", "cmVsYXlib3gtdGVzdC0wMQ", "-c", file]);
  const { Admin } = await import("@platformatic/kafka");
  const server = await startServer({
    command: java,
    args: [...classes, "kafka.Kafka", file],
    cwd: dir,
    async ready() {
      const options = { clientId: "ready", bootstrapBrokers: [`127.0.0.1:${port}`], retries: 0, connectTimeout: 500 };
      const admin = new Admin(options);
      try {
        return (await admin.metadata({ topics: [] })).brokers.size > 0;
      } finally {
        await admin.close();
      }
    },
  });
  return {
    port,
    broker: `127.0.0.1:${port}`,
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
