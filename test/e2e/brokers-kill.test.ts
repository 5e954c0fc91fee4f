// Whole relays between a real broker and their storage, killed -9 in mid-stream, and the broker too: a ledger of all events.
import { EVENT } from "../../core/model/schema.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { Admin, Producer } from "@platformatic/kafka";
import { connect as connectAmqp } from "amqplib";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { startChild } from "../support/child-relay.ts";
import { ledger } from "../support/message-plugin.ts";
import { needsKafka, startKafka } from "../support/kafka.ts";
import { startNats } from "../support/nats.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRabbit } from "../support/rabbitmq.ts";
import type { ServerProcess } from "../support/server-process.ts";
import { until } from "../support/until.ts";

const TOTAL = 4_000;
const event = (i: number): string => JSON.stringify({ type: "order.placed", keyId: "key_1", data: i });

interface Broker extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly imports: readonly string[];
  /** The source in the config. */
  readonly source: string;
  /** Publishes the events from `from` on, durably. */
  send(from: number, to: number): Promise<void>;
  /** Messages that are not acknowledged yet, as far as the broker says. */
  waiting(): Promise<number>;
}

async function rabbit(): Promise<Broker> {
  const server = await startRabbit();
  async function withChannel<T>(
    work: (channel: Awaited<ReturnType<typeof open>>["channel"]) => Promise<T>,
  ): Promise<T> {
    const { model, channel } = await open();
    try {
      return await work(channel);
    } finally {
      await model.close();
    }
  }
  async function open() {
    const model = await connectAmqp(server.url);
    return { model, channel: await model.createConfirmChannel() };
  }
  await withChannel((channel) => channel.assertQueue("orders", { durable: true }));
  await server.restart();
  return {
    server,
    imports: ["fromAmqp"],
    source: `fromAmqp({ url: "${server.url}", queue: "orders", prefetch: 100 })`,
    send: (from, to) =>
      withChannel(async (channel) => {
        for (let i = from; i < to; i++) {
          channel.sendToQueue("orders", Buffer.from(event(i)), { persistent: true, messageId: `m-${i}` });
        }
        await channel.waitForConfirms();
      }),
    waiting: () => withChannel(async (channel) => (await channel.checkQueue("orders")).messageCount),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function nats(): Promise<Broker> {
  const server = await startNats();
  async function dialled<T>(work: (connection: Awaited<ReturnType<typeof connectNats>>) => Promise<T>): Promise<T> {
    const connection = await connectNats({ servers: server.url });
    try {
      return await work(connection);
    } finally {
      await connection.close();
    }
  }
  await dialled(async (connection) => {
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name: "ORDERS", subjects: ["orders"] });
    await manager.consumers.add("ORDERS", { durable_name: "relay", ack_policy: "explicit", ack_wait: 2_000e6 });
  });
  return {
    server,
    imports: ["fromNats"],
    source: `fromNats({ servers: "${server.url}", stream: "ORDERS", consumer: "relay", maxInFlight: 100 })`,
    send: (from, to) =>
      dialled(async (connection) => {
        const client = jetstream(connection);
        await Promise.all(Array.from({ length: to - from }, (_, i) => client.publish("orders", event(from + i))));
      }),
    waiting: () =>
      dialled(async (connection) => {
        const { num_pending, num_ack_pending } = await (
          await jetstreamManager(connection)
        ).consumers.info("ORDERS", "relay");
        return num_pending + num_ack_pending;
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function kafka(): Promise<Broker> {
  const server = await startKafka();
  const client = { clientId: "test", bootstrapBrokers: [server.broker], retries: 20, retryDelay: 500 };
  const topic = "orders";
  const groupId = "relay";
  async function asked<T>(work: (admin: Admin) => Promise<T>): Promise<T> {
    const admin = new Admin(client);
    try {
      return await work(admin);
    } finally {
      await admin.close();
    }
  }
  await asked((admin) => admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 }));
  let sent = 0;
  return {
    server,
    imports: ["fromKafka"],
    source: `fromKafka({ brokers: ["${server.broker}"], topics: ["${topic}"], groupId: "${groupId}", maxInFlight: 100 })`,
    async send(from, to) {
      // Without it, a send that is tried again writes some messages twice.
      const producer = new Producer({ ...client, idempotent: true });
      const messages = Array.from({ length: to - from }, (_, i) => ({
        topic,
        key: Buffer.from(`k${from + i}`),
        value: Buffer.from(event(from + i)),
      }));
      await producer.send({ messages, acks: -1 });
      await producer.close();
      sent += messages.length;
    },
    // A group that has committed nothing yet is not known.
    waiting: () =>
      asked(async (admin) => {
        const [group] = await admin.listConsumerGroupOffsets({ groups: [{ groupId }] }).catch(() => []);
        const partitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? [];
        return sent - partitions.reduce((sum, { committedOffset: at }) => sum + Math.max(Number(at), 0), 0);
      }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function storedIn(dataDir: string) {
  const storage = await sqlite({ dir: dataDir }).setup(pluginContext(systemClock(), dataDir));
  const events: { readonly body: string }[] = [];
  for (let after: string | undefined; ;) {
    const page = await storage.range("event:", { after, limit: 1_000 });
    events.push(...page.map(({ value }) => EVENT.orThrow(value)));
    if (page.length < 1_000) break;
    after = page.at(-1)?.key;
  }
  await storage.dispose();
  return events;
}

describe.each([
  ["RabbitMQ", needs("rabbitmq"), rabbit],
  ["NATS", needs("nats"), nats],
  ["Kafka", needsKafka(), kafka],
] as const)("a relay that takes events from %s", (name, missing, start) => {
  it(`loses none and stores none twice when relay and broker are killed in mid-stream (${missing ?? name})`, async ({
    skip,
  }) => {
    skip(missing !== undefined, missing);
    await using broker = await start();
    const folder = await mkdtemp(join(tmpdir(), "relay-brokers-"));
    const config = `sources: [http(), ${broker.source}],`;
    const relay = () => startChild(folder, { imports: ["http", ...broker.imports], config });
    await broker.send(0, TOTAL / 2);
    for (let kills = 0; kills < 3; kills++) {
      await using child = await relay();
      const before = await broker.waiting();
      // In mid-stream: some are taken, and most are not.
      await until(async () => (await broker.waiting()) < Math.max(before - 150, 1));
      await child.kill();
    }
    await broker.send(TOTAL / 2, TOTAL);
    for (let starts = 0; starts === 0 || (await broker.waiting()) > 0; starts++) {
      await using child = await relay();
      if (starts === 0) {
        await broker.server.kill();
        await broker.server.start();
      }
      await until(async () => (await broker.waiting()) === 0);
      // What a relay holds, RabbitMQ counts only when it is gone, and it gives back what it has not stored.
      child.running.kill("SIGTERM");
      await child.running.ended;
    }
    const seen = ledger(await storedIn(join(folder, "data")));
    await rm(folder, { recursive: true });
    expect(seen.size).toBe(TOTAL);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });
});
