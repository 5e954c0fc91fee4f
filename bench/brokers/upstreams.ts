// The upstreams of the sources under measurement: each is filled while the relay stands still, and takes single messages.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { jetstream } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { Producer } from "@platformatic/kafka";
import { connect as connectAmqp } from "amqplib";
import { Redis } from "ioredis";
import mysqlClient from "mysql2/promise";
import pg from "pg";
import { takeAmqp, takeNats, takePostgres, takeRedis, type Take } from "./alone.ts";
import type { System } from "./servers.ts";

export interface Upstream {
  /** The source's name in metrics. */
  readonly name: string;
  /** The source, as it stands in a config that imports `* as relay`. */
  readonly source: string;
  /** True when it hears of a message at once; its lag is measured then. */
  readonly pushes: boolean;
  /** Resolves when upstream has all messages, in this order. @param alone at the place that `take` reads, not the source */
  fill(bodies: readonly string[], alone?: boolean): Promise<void>;
  /** Reads what was filled in for it with the client alone, without a relay; `undefined`: that is not measured. */
  readonly take?: Take;
  /** Resolves when upstream has the message. May be called many times at once. */
  push(body: string): Promise<unknown>;
  close(): Promise<unknown>;
}

export interface UpstreamMaker {
  readonly name: string;
  readonly system: System;
  make(url: string): Promise<Upstream>;
}

const CHUNK = 1_000;

async function inChunks(
  bodies: readonly string[],
  send: (chunk: readonly string[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < bodies.length; at += CHUNK) await send(bodies.slice(at, at + CHUNK));
}

/** Statements of docs/sources.md. `json` keeps the bytes, which the receiver compares. */
function documented(what: "outbox" | "feed"): string {
  const page = readFileSync(new URL("../../docs/sources.md", import.meta.url), "utf8");
  const [, sql = ""] = new RegExp(`^\`\`\`sql ${what}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  return sql.replaceAll("jsonb", "json");
}

const FEED_TRIGGER =
  "CREATE TRIGGER feed_notify AFTER INSERT ON feed FOR EACH STATEMENT EXECUTE FUNCTION feed_notify();";

async function postgres(url: string, table: "outbox" | "feed", source: string): Promise<Upstream> {
  const client = new pg.Pool({ connectionString: url, max: 8 });
  client.on("error", () => {});
  await client.query(documented(table));
  if (table === "feed") {
    const wake = documented("outbox").slice(documented("outbox").indexOf("CREATE FUNCTION"));
    await client.query(wake.slice(0, wake.indexOf("CREATE TRIGGER")).replaceAll("outbox", "feed") + FEED_TRIGGER);
  }
  // The same table, without the trigger.
  const aside = `${table}_alone`;
  await client.query((documented(table).split(/^-- Wakes|^CREATE FUNCTION/m, 1)[0] ?? "").replaceAll(table, aside));
  const into = (place: string): string => `INSERT INTO ${place} (event) SELECT unnest($1::text[])::json`;
  return {
    ...{ name: table, source, pushes: true },
    fill: (bodies, alone = false) => inChunks(bodies, (chunk) => client.query(into(alone ? aside : table), [chunk])),
    take: await takePostgres(url, aside, table === "outbox"),
    push: (body) => client.query(`INSERT INTO ${table} (event) VALUES ($1)`, [body]),
    close: () => client.end(),
  };
}

/** A table with uuids, and the event in columns: as Debezium's, with a time. */
async function uuids(url: string): Promise<Upstream> {
  const client = new pg.Pool({ connectionString: url, max: 8 });
  client.on("error", () => {});
  await client.query(`CREATE TABLE uuids (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), type text, key text, payload json,
    created_at timestamptz DEFAULT clock_timestamp()); CREATE INDEX ON uuids (created_at, id)`);
  const add = (bodies: readonly string[]): Promise<unknown> =>
    client.query(
      `INSERT INTO uuids (type, key, payload) SELECT e->>'type', e->>'keyId', e->'data' FROM (SELECT unnest($1::text[])::json AS e) AS all_of`,
      [bodies],
    );
  const columns = "columns: { type: 'type', key: 'key', payload: 'payload' }";
  return {
    ...{ name: "uuids", pushes: false },
    source: `relay.fromPostgres({ name: "uuids", url: "${url}", table: "uuids", pollMs: 100, ${columns} })`,
    fill: (bodies) => inChunks(bodies, add),
    push: (body) => add([body]),
    close: () => client.end(),
  };
}

async function mysql(url: string): Promise<Upstream> {
  const client = mysqlClient.createPool({ uri: url, connectionLimit: 8 });
  await client.query(
    "CREATE TABLE outbox (id bigint AUTO_INCREMENT PRIMARY KEY, event longtext, created_at datetime(6) DEFAULT (UTC_TIMESTAMP(6)))",
  );
  const add = (bodies: readonly string[]): Promise<unknown> =>
    client.query("INSERT INTO outbox (event) VALUES ?", [bodies.map((body) => [body])]);
  return {
    ...{ name: "mysql", source: `relay.fromMysql({ url: "${url}", pollMs: 100 })`, pushes: false },
    fill: (bodies) => inChunks(bodies, add),
    push: (body) => add([body]),
    close: () => client.end(),
  };
}

async function amqp(url: string): Promise<Upstream> {
  const model = await connectAmqp(url);
  model.on("error", () => {});
  const channel = await model.createConfirmChannel();
  await channel.assertQueue("alone", { durable: true });
  const send = (body: string, queue = "relay"): Promise<unknown> =>
    new Promise<void>((done, fail) => {
      const options = { persistent: true, messageId: randomUUID() };
      channel.sendToQueue(queue, Buffer.from(body), options, (error: unknown) => {
        if (error === null || error === undefined) done();
        else fail(error as Error);
      });
    });
  return {
    ...{ name: "amqp", source: `relay.fromAmqp({ url: "${url}", queue: "relay" })`, pushes: true },
    fill: (bodies, alone = false) =>
      inChunks(bodies, (chunk) => Promise.all(chunk.map((body) => send(body, alone ? "alone" : "relay")))),
    take: await takeAmqp(url, "alone"),
    push: (body) => send(body),
    close: () => model.close(),
  };
}

async function nats(url: string): Promise<Upstream> {
  const connection = await connectNats({ servers: url });
  const client = jetstream(connection);
  const send = (body: string, subject = "orders.bench"): Promise<unknown> => client.publish(subject, body);
  const source = `relay.fromNats({ servers: "${url}", stream: "ORDERS", consumer: "relay" })`;
  return {
    ...{ name: "nats", source, pushes: true },
    fill: (bodies, alone = false) =>
      inChunks(bodies, (chunk) => Promise.all(chunk.map((body) => send(body, alone ? "alone" : "orders.bench")))),
    take: await takeNats(url, "ALONE", "alone"),
    push: (body) => send(body),
    close: () => connection.close(),
  };
}

async function redis(url: string): Promise<Upstream> {
  const client = new Redis(url);
  const source = `relay.fromRedisStream({ url: "${url}", stream: "orders", group: "relay" })`;
  const add = (body: string, stream = "orders"): Promise<unknown> => client.xadd(stream, "*", "event", body);
  return {
    ...{ name: "redisStream", source, pushes: true },
    // The client itself sends what is asked for at once together.
    fill: (bodies, alone = false) =>
      inChunks(bodies, (chunk) => Promise.all(chunk.map((body) => add(body, alone ? "alone" : "orders")))),
    take: await takeRedis(url, "alone"),
    push: (body) => add(body),
    close: () => client.quit(),
  };
}

async function kafka(broker: string): Promise<Upstream> {
  const retries = { retries: 20, retryDelay: 250 };
  const producer = new Producer({ clientId: "bench", bootstrapBrokers: [broker], autocreateTopics: true, ...retries });
  const send = (chunk: readonly string[]): Promise<unknown> =>
    producer.send({ messages: chunk.map((body) => ({ topic: "orders", value: Buffer.from(body) })), acks: -1 });
  const source = `relay.fromKafka({ brokers: ["${broker}"], topics: ["orders"], groupId: "relay" })`;
  // The topic must be there before the source asks for it.
  await producer.metadata({ topics: ["orders"], autocreateTopics: true });
  return {
    ...{ name: "kafka", source, pushes: true },
    fill: (bodies) => inChunks(bodies, send),
    push: (body) => send([body]),
    close: () => producer.close(),
  };
}

export const UPSTREAMS: readonly UpstreamMaker[] = [
  {
    name: "outbox",
    system: "PostgreSQL",
    make: (url) => postgres(url, "outbox", `relay.fromPostgres({ name: "outbox", url: "${url}", table: "outbox" })`),
  },
  {
    name: "cursor",
    system: "PostgreSQL",
    make: (url) =>
      postgres(url, "feed", `relay.fromPostgres({ name: "feed", url: "${url}", table: "feed", cursor: true })`),
  },
  { name: "uuids", system: "PostgreSQL", make: uuids },
  { name: "mysql", system: "MariaDB", make: mysql },
  { name: "amqp", system: "RabbitMQ", make: amqp },
  { name: "nats", system: "NATS", make: nats },
  { name: "redisStream", system: "Redis", make: redis },
  { name: "kafka", system: "Kafka", make: kafka },
];
