// The far sides of the transports under measurement: each reads back what came since the last time.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { Consumer, Producer } from "@platformatic/kafka";
import { connect as connectAmqp } from "amqplib";
import { Redis } from "ioredis";
import type { System } from "./servers.ts";

export interface Arrived {
  readonly body: Buffer;
  /** Header `X-Relay-Webhook-Signature`. */
  readonly signature: string;
  /** Header `webhook-id`. */
  readonly id: string;
}

export interface Far {
  /** The transport, as it stands in a config that imports `* as relay`. */
  readonly transport: string;
  /** The destination of a subscription. */
  readonly url: string;
  /** Resolves to `count` messages that came since the last time, or more where there are more at once. */
  take(count: number): Promise<readonly Arrived[]>;
  close(): Promise<unknown>;
}

export interface FarMaker {
  readonly name: string;
  /** `undefined`: it needs no server. */
  readonly system?: System;
  /** @param folder of the relay's config */
  make(url: string, folder: string): Promise<Far>;
}

const arrived = (body: Buffer, header: (name: string) => unknown): Arrived => {
  const text = (name: string): string => {
    const value = header(name) ?? header(name.toLowerCase());
    return typeof value === "string" ? value : "";
  };
  return { body, signature: text("X-Relay-Webhook-Signature"), id: text("webhook-id") };
};

function file(_url: string, folder: string): Promise<Far> {
  let read = 0;
  return Promise.resolve({
    transport: 'relay.toFile({ name: "disk", dir: "./lines" })',
    url: "file://disk/bench",
    async take() {
      const bytes = await readFile(join(folder, "lines/bench.ndjson"));
      const lines = bytes.toString("utf8", read).split("\n").slice(0, -1);
      read = bytes.length;
      return lines.map((line) => {
        const { headers, body } = JSON.parse(line) as { headers: Record<string, string>; body: string };
        return arrived(Buffer.from(body), (name) => headers[name]);
      });
    },
    close: () => Promise.resolve(),
  });
}

async function redisStream(url: string): Promise<Far> {
  const client = new Redis(url);
  let last = "-";
  return {
    transport: `relay.toRedisStream({ name: "streams", url: "${url}" })`,
    url: "redis-stream://streams/bench",
    async take(count) {
      const found: Arrived[] = [];
      while (found.length < count) {
        const entries = await client.xrange("bench", last, "+", "COUNT", 1_000);
        if (entries.length === 0) break;
        for (const [id, fields] of entries) {
          const named = new Map<string, string>();
          for (let i = 0; i + 1 < fields.length; i += 2) named.set(fields[i] as string, fields[i + 1] as string);
          found.push(arrived(Buffer.from(named.get("event") ?? ""), (name) => named.get(name)));
          last = `(${id}`;
        }
      }
      return found;
    },
    close: () => client.quit(),
  };
}

async function nats(url: string): Promise<Far> {
  const connection = await connectNats({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: "FAR", subjects: ["far.>"] });
  await manager.consumers.add("FAR", { durable_name: "far", ack_policy: "none" });
  const consumer = await jetstream(connection).consumers.get("FAR", "far");
  return {
    transport: `relay.toNats({ name: "bus", servers: "${url}" })`,
    url: "nats://bus/far.bench",
    async take(count) {
      const found: Arrived[] = [];
      while (found.length < count) {
        const before = found.length;
        for await (const { data, headers } of await consumer.fetch({ max_messages: 1_000, expires: 1_000 }))
          found.push(arrived(Buffer.from(data), (name) => headers?.get(name) || undefined));
        if (found.length === before) break;
      }
      return found;
    },
    close: () => connection.close(),
  };
}

async function amqp(url: string): Promise<Far> {
  const model = await connectAmqp(url);
  model.on("error", () => {});
  const channel = await model.createChannel();
  await channel.assertExchange("far", "topic", { durable: true });
  await channel.assertQueue("far", { durable: true });
  await channel.bindQueue("far", "far", "bench");
  return {
    transport: `relay.toAmqp({ name: "rabbit", url: "${url}" })`,
    url: "amqp://rabbit/far/bench",
    async take(count) {
      const found: Arrived[] = [];
      const enough = Promise.withResolvers<void>();
      const { consumerTag } = await channel.consume(
        "far",
        (message) => {
          if (message === null) return enough.resolve();
          found.push(arrived(message.content, (name) => message.properties.headers?.[name]));
          if (found.length >= count) enough.resolve();
        },
        { noAck: true },
      );
      await enough.promise;
      await channel.cancel(consumerTag);
      return found;
    },
    close: () => model.close(),
  };
}

async function kafka(broker: string): Promise<Far> {
  const client = { clientId: "bench", bootstrapBrokers: [broker], retries: 20, retryDelay: 250 };
  // The topic must be there before anything is sent to it.
  const producer = new Producer({ ...client, autocreateTopics: true });
  await producer.metadata({ topics: ["far"], autocreateTopics: true });
  await producer.close();
  const consumer = new Consumer({ ...client, groupId: "far" });
  const stream = await consumer.consume({ topics: ["far"], mode: "earliest", autocommit: false });
  const messages = stream[Symbol.asyncIterator]();
  return {
    transport: `relay.toKafka({ name: "kafka", brokers: ["${broker}"] })`,
    url: "kafka://kafka/far",
    async take(count) {
      const found: Arrived[] = [];
      while (found.length < count) {
        const { value: message, done } = await messages.next();
        if (done === true) break;
        const headers = new Map([...message.headers].map(([name, text]) => [String(name), String(text)]));
        found.push(arrived(message.value, (name) => headers.get(name)));
      }
      return found;
    },
    close: () => consumer.close(true),
  };
}

export const FARS: readonly FarMaker[] = [
  { name: "toFile", make: file },
  { name: "toRedisStream", system: "Redis", make: redisStream },
  { name: "toNats", system: "NATS", make: nats },
  { name: "toAmqp", system: "RabbitMQ", make: amqp },
  { name: "toKafka", system: "Kafka", make: kafka },
];
