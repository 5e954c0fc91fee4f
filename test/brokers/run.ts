// `npm run brokers`: PostgreSQL, MariaDB, RabbitMQ, NATS, Redis and Kafka to try sources and buses with, until Ctrl-C. All that they
// hold is gone then. With `--json` it prints one line for each, which the benchmarks read: `name` with `url` or `missing`;
// it then runs until its standard input is closed, so that it ends with the process that started it.
import { jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { connect as connectAmqp } from "amqplib";
import { needsKafka, startKafka } from "../support/kafka.ts";
import { startMysql } from "../support/mysql.ts";
import { startNats } from "../support/nats.ts";
import { findProgram } from "../support/needs.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import { startRedis } from "../support/redis.ts";

interface Started {
  readonly server: AsyncDisposable;
  readonly url: string;
  /** The source that reads from it, as a config names it. */
  readonly source: string;
}

async function rabbit(): Promise<Started> {
  const server = await startRabbit();
  const model = await connectAmqp(server.url);
  await (await model.createChannel()).assertQueue("relay", { durable: true });
  await model.close();
  return { server, url: server.url, source: `fromAmqp({ url: "${server.url}", queue: "relay" })` };
}

async function nats(): Promise<Started> {
  const server = await startNats();
  const connection = await connectNats({ servers: server.url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: "ORDERS", subjects: ["orders.>"] });
  await manager.consumers.add("ORDERS", { durable_name: "relay", ack_policy: "explicit" });
  await connection.close();
  return {
    server,
    url: server.url,
    source: `fromNats({ servers: "${server.url}", stream: "ORDERS", consumer: "relay" })`,
  };
}

async function redis(): Promise<Started> {
  const server = await startRedis();
  return {
    server,
    url: server.url,
    source: `fromRedisStream({ url: "${server.url}", stream: "orders", group: "relay" })`,
  };
}

async function postgres(): Promise<Started> {
  const server = await startPostgres();
  return { server, url: server.url, source: `fromPostgres({ url: "${server.url}", table: "outbox" })` };
}

async function mysql(): Promise<Started> {
  const server = await startMysql();
  return { server, url: server.url, source: `fromMysql({ url: "${server.url}", table: "outbox" })` };
}

async function kafka(): Promise<Started> {
  const server = await startKafka({ "auto.create.topics.enable": "true" });
  return {
    server,
    url: server.broker,
    source: `fromKafka({ brokers: ["${server.broker}"], topics: ["orders"], groupId: "relay" })`,
  };
}

const absent = (name: "mariadb" | "rabbitmq" | "nats" | "redis"): string | undefined =>
  findProgram(name) === undefined ? "is not installed: node tools/setup.mjs" : undefined;
const all: readonly (readonly [name: string, missing: string | undefined, start: () => Promise<Started>])[] = [
  ["RabbitMQ", absent("rabbitmq"), rabbit],
  ["NATS", absent("nats"), nats],
  ["Redis", absent("redis"), redis],
  ["PostgreSQL", undefined, postgres],
  ["MariaDB", absent("mariadb"), mysql],
  ["Kafka", needsKafka(), kafka],
];

const json = process.argv.includes("--json");
const say = (name: string, line: string, fields: { readonly url?: string; readonly missing?: string }): void =>
  void process.stdout.write(`${json ? JSON.stringify({ name, ...fields }) : line}\n`);

const stopped = Promise.withResolvers<void>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopped.resolve());
if (json) process.stdin.once("end", () => stopped.resolve()).resume();
await using running = new AsyncDisposableStack();
for (const [name, missing, start] of all) {
  if (missing !== undefined) {
    say(name, `// ${name} ${missing}`, { missing });
    continue;
  }
  try {
    const { server, url, source } = await start();
    running.use(server);
    say(name, `${source}, // ${name}`, { url });
  } catch (error) {
    const reason = `does not start: ${(error as Error).message}`;
    say(name, `// ${name} ${reason}`, { missing: reason });
  }
}
if (!json) process.stdout.write("// Put these into `sources` of a relay.config.ts. Ctrl-C stops the servers.\n");
const alive = setInterval(() => undefined, 60_000);
await stopped.promise;
clearInterval(alive);
