// `npm run brokers`: PostgreSQL, RabbitMQ, NATS, Redis and Kafka to try sources and buses with, until Ctrl-C. All that they
// hold is gone then.
import { jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { connect as connectAmqp } from "amqplib";
import { needsKafka, startKafka } from "../support/kafka.ts";
import { startNats } from "../support/nats.ts";
import { findProgram } from "../support/needs.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import { startRedis } from "../support/redis.ts";

interface Started {
  readonly server: AsyncDisposable;
  /** The source that reads from it, as a config names it. */
  readonly source: string;
}

async function rabbit(): Promise<Started> {
  const server = await startRabbit();
  const model = await connectAmqp(server.url);
  await (await model.createChannel()).assertQueue("relay", { durable: true });
  await model.close();
  return { server, source: `fromAmqp({ url: "${server.url}", queue: "relay" })` };
}

async function nats(): Promise<Started> {
  const server = await startNats();
  const connection = await connectNats({ servers: server.url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: "ORDERS", subjects: ["orders.>"] });
  await manager.consumers.add("ORDERS", { durable_name: "relay", ack_policy: "explicit" });
  await connection.close();
  return { server, source: `fromNats({ servers: "${server.url}", stream: "ORDERS", consumer: "relay" })` };
}

async function redis(): Promise<Started> {
  const server = await startRedis();
  return { server, source: `fromRedisStream({ url: "${server.url}", stream: "orders", group: "relay" })` };
}

async function postgres(): Promise<Started> {
  const server = await startPostgres();
  return { server, source: `fromPostgres({ url: "${server.url}", table: "outbox" })` };
}

async function kafka(): Promise<Started> {
  const server = await startKafka({ "auto.create.topics.enable": "true" });
  return { server, source: `fromKafka({ brokers: ["${server.broker}"], topics: ["orders"], groupId: "relay" })` };
}

const absent = (name: "rabbitmq" | "nats" | "redis"): string | undefined =>
  findProgram(name) === undefined ? "is not installed: node tools/setup.mjs" : undefined;
const all: readonly (readonly [name: string, missing: string | undefined, start: () => Promise<Started>])[] = [
  ["RabbitMQ", absent("rabbitmq"), rabbit],
  ["NATS", absent("nats"), nats],
  ["Redis", absent("redis"), redis],
  ["PostgreSQL", undefined, postgres],
  ["Kafka", needsKafka(), kafka],
];

const say = (line: string): void => void process.stdout.write(`${line}\n`);

const stopped = Promise.withResolvers<void>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopped.resolve());
await using running = new AsyncDisposableStack();
for (const [name, missing, start] of all) {
  if (missing !== undefined) {
    say(`// ${name} ${missing}`);
    continue;
  }
  try {
    const { server, source } = await start();
    running.use(server);
    say(`${source}, // ${name}`);
  } catch (error) {
    say(`// ${name} does not start: ${(error as Error).message}`);
  }
}
say("// Put these into `sources` of a relay.config.ts. Ctrl-C stops the servers.");
const alive = setInterval(() => undefined, 60_000);
await stopped.promise;
clearInterval(alive);
