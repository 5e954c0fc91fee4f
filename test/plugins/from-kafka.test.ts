// Kafka as a source. Debian has no package of Kafka: what needs a server runs where KAFKA_HOME names its published jars.
import { Admin, Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPartitionProgress } from "../../plugins/source/kafka/progress.ts";
import { fromKafka } from "../../plugins/source/kafka.ts";
import type { FromKafkaOptions } from "../../plugins/source/kafka/session.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { desk as makeDesk, paid } from "../support/intake.ts";
import { needsKafka, startKafka, type KafkaServer } from "../support/kafka.ts";
import { describeMessageSource, hasty, SEEN_MS } from "../support/message-laws.ts";
import { ledger, openSource, sourceContext } from "../support/message-plugin.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { eventually, until } from "../support/until.ts";

const missing = needsKafka();
const fsync = { durability: "fsync" } as const;

describe.skipIf(missing !== undefined)(`Kafka as a source (${missing ?? "a real server"})`, () => {
  let server: KafkaServer;
  let admin: Admin;
  let producer: Producer<Buffer, Buffer, Buffer, Buffer>;
  let count = 0;

  beforeAll(async () => {
    server = await startKafka();
    const client = { clientId: "test", bootstrapBrokers: [server.broker], retries: 20, retryDelay: 500 };
    admin = new Admin(client);
    // Without it, a send that is tried again on a busy machine writes some messages twice.
    producer = new Producer({ ...client, idempotent: true });
  });
  afterAll(async () => {
    await producer?.close();
    await admin?.close();
    await server?.[Symbol.asyncDispose]();
  });

  async function newTopic(partitions = 1): Promise<string> {
    const topic = `orders${++count}`;
    await admin.createTopics({ topics: [topic], partitions, replicas: 1 });
    return topic;
  }
  async function send(topic: string, payloads: readonly unknown[], headers: Readonly<Record<string, string>> = {}) {
    const out = new Map(Object.entries(headers).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]));
    const messages = payloads.map((one, i) => ({
      topic,
      key: Buffer.from(`k${i}`),
      value: Buffer.from(typeof one === "string" ? one : JSON.stringify(one)),
      headers: out,
    }));
    await producer.send({ messages, acks: -1 });
  }
  const options = (topic: string, more: Partial<FromKafkaOptions> = {}): FromKafkaOptions => ({
    ...{ brokers: [server.broker], topics: [topic], groupId: `group-${topic}` },
    ...more,
  });
  async function committed(topic: string): Promise<bigint> {
    const groups = [{ groupId: `group-${topic}` }];
    const [group] = await admin.listConsumerGroupOffsets({ groups });
    const partitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? [];
    return partitions.reduce((sum, { committedOffset }) => sum + (committedOffset > 0n ? committedOffset : 0n), 0n);
  }

  describe("keeps the law of a source:", () => {
    interface Told {
      topic: string;
      later: PromiseWithResolvers<Upstream>;
      refused: PromiseWithResolvers<Upstream>;
    }
    const told = new WeakMap<object, Told>();
    const acknowledged = async ({ topic }: Told): Promise<Upstream> => {
      await until(async () => (await committed(topic)) > 0n);
      return "acknowledged";
    };
    describeSource(it, {
      async open() {
        const topic = await newTopic();
        const state: Told = { topic, later: Promise.withResolvers(), refused: Promise.withResolvers() };
        const log = quietLog();
        const warn: typeof log.warn = (message) => {
          if (message.startsWith("a source waits")) state.later.resolve("later");
          if (message === "a message is set aside") state.refused.resolve("refused");
        };
        const plugin = fromKafka(options(topic));
        const source = await plugin.setup(sourceContext(plugin, { log: { ...log, warn } }));
        let over = false;
        const under = {
          source,
          async publish(text: string): Promise<Upstream> {
            await send(topic, [text]);
            const stored = (async (): Promise<Upstream> => {
              await until(async () => over || (await committed(topic)) > 0n);
              return "acknowledged";
            })();
            return Promise.race([state.later.promise, state.refused.promise, stored]);
          },
          async [Symbol.asyncDispose]() {
            over = true;
            await source.stop();
          },
        };
        told.set(under, state);
        return under;
      },
      again: (under) => acknowledged(told.get(under) as Told),
    });
  });

  describe("keeps the law of a source of messages:", () => {
    describeMessageSource({
      make: newTopic,
      read: (topic) => fromKafka(options(topic, { maxInFlight: 1 })),
      send: (topic, payload) => send(topic, [payload]),
      async remake(topic) {
        await admin.deleteTopics({ topics: [topic] });
        // The server answers before it has deleted everything.
        await until(() =>
          admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }).then(
            () => true,
            () => false,
          ),
        );
        producer.clearMetadata();
      },
    });
  });

  it.each([1, 2])(
    "reads partitions that are added to its topic, and counts what waits in them, by %i",
    async (nodes) => {
      const topic = await newTopic();
      const waiting: number[] = [];
      const gauge = (name: string, value: number): void => {
        if (name === "relay_source_backlog") waiting.push(value);
      };
      const given = { clock: pacedClock(hasty), metrics: { ...quietMetrics(), gauge } };
      const { source, desk } = await openSource(fromKafka(options(topic, { maxInFlight: 1 })), given);
      let gate = Promise.resolve();
      await source.start(async (request) => (await gate, desk.intake.accept(request)), fsync);
      await using others = new AsyncDisposableStack();
      for (let i = 1; i < nodes; i++) {
        const other = await openSource(fromKafka(options(topic, { maxInFlight: 1 })), { clock: pacedClock(hasty) });
        others.defer(() => other.source.stop());
        await other.source.start(async (request) => (await gate, desk.another().accept(request)), fsync);
      }
      await send(topic, [paid({ data: 0 })]);
      await until(async () => (await committed(topic)) === 1n);
      const open = Promise.withResolvers<void>();
      gate = open.promise;
      await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] });
      producer.clearMetadata();
      const messages = Array.from({ length: 8 }, (_, i) => ({
        ...{
          topic,
          partition: i % 4,
          key: Buffer.from("k"),
          value: Buffer.from(JSON.stringify(paid({ data: 1 + i }))),
        },
      }));
      await producer.send({ messages, acks: -1 });
      await eventually("all partitions are counted", () => waiting.at(-1) === 8, SEEN_MS);
      open.resolve();
      await eventually("all partitions are read", () => desk.told.length === 9, SEEN_MS);
      await eventually("nothing waits", () => waiting.at(-1) === 0, SEEN_MS);
      expect(source.readiness?.()).toBeUndefined();
      await source.stop();
      expect(ledger(desk.told).size).toBe(9);
    },
  );

  it("stores the messages of a topic, byte for byte, under ids of their places", async () => {
    const topic = await newTopic();
    await send(topic, ['{"type":"deposit:paid","keyId":"key_1","data":{"n":1.0}}', paid({ id: "mine" })]);
    const { source, desk } = await openSource(fromKafka(options(topic)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await committed(topic)) === 2n);
    await source.stop();
    expect(desk.told.map(({ id }) => id)).toEqual([expect.stringMatching(`^${topic}:[0-9a-zA-Z]{8}:0:0$`), "mine"]);
    expect(desk.told[0]?.body).toContain('{"n":1.0}');
  });

  it("goes on after a restart where it had stopped, and reads CloudEvents in headers", async () => {
    const topic = await newTopic();
    await send(topic, [paid({ data: 1 })]);
    const first = await openSource(fromKafka(options(topic)));
    await first.source.start(first.desk.intake.accept, fsync);
    await until(async () => (await committed(topic)) === 1n);
    await first.source.stop();
    const event = { specversion: "1.0", id: "c-1", source: "/shop", type: "order.placed", subject: "key_1" };
    const headers = Object.fromEntries(Object.entries(event).map(([name, value]) => [`ce_${name}`, value]));
    await send(topic, [{ total: 2 }], headers);
    const second = await openSource(fromKafka(options(topic)));
    await second.source.start(second.desk.intake.accept, fsync);
    await until(() => second.desk.told.length === 1);
    await second.source.stop();
    expect(second.desk.told[0]).toMatchObject({ id: "c-1:2fc4b7c299d7c1c8af31", type: "order.placed", keyId: "key_1" });
  });

  it("keeps a message without a valid event in its own store with the reason, and goes on", async () => {
    const topic = await newTopic();
    await send(topic, ["{", paid({ data: 1 }), paid({ keyId: "not a key" }), paid({ data: 2 })]);
    const { source, desk, store, metrics } = await openSource(fromKafka(options(topic)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await committed(topic)) === 4n);
    await source.stop();
    expect(ledger(desk.told).size).toBe(2);
    expect(metrics.counted.get("source_dead_lettered kafka")).toBe(2);
    const kept = [...store.rows.values()].map((text) => JSON.parse(text) as { code: string; payload: string });
    expect(kept.map(({ code }) => code)).toEqual(["INVALID_JSON", "VALIDATION_FAILED"]);
    expect(Buffer.from(kept[0]?.payload ?? "", "base64").toString()).toBe("{");
  });

  it("writes such a message to a dead-letter topic, with the reason in its headers", async () => {
    const [topic, dead] = [await newTopic(), await newTopic()];
    await send(topic, ["{"]);
    const { source, desk } = await openSource(fromKafka(options(topic, { deadLetterTopic: dead })));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await committed(topic)) === 1n);
    await source.stop();
    const reread = await openSource(
      fromKafka(options(dead, { map: ({ text, headers }) => ({ ...paid(), data: [text, headers["relay-code"]] }) })),
    );
    await reread.source.start(reread.desk.intake.accept, fsync);
    await until(() => reread.desk.told.length === 1);
    await reread.source.stop();
    expect(reread.desk.told[0]?.body).toContain('["{","INVALID_JSON"]');
  });

  it("keeps such a message where the dead-letter topic cannot be written", async () => {
    const topic = await newTopic();
    await send(topic, ["{", paid()]);
    const { source, desk, store } = await openSource(fromKafka(options(topic, { deadLetterTopic: "not-there" })));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await committed(topic)) === 2n);
    await source.stop();
    expect(store.rows.size).toBe(1);
    expect(desk.told).toHaveLength(1);
  });

  it("shares the partitions with another relay, and takes over those of one that leaves", async () => {
    const topic = await newTopic(4);
    const desk = makeDesk();
    const [first, second] = [await openSource(fromKafka(options(topic))), await openSource(fromKafka(options(topic)))];
    await first.source.start(desk.intake.accept, fsync);
    const total = 2_000;
    const events = Array.from({ length: total }, (_, i) => paid({ data: i }));
    await send(topic, events.slice(0, 500));
    await until(() => desk.told.length > 0);
    // Two relays on one storage, joined and left in mid-stream.
    await second.source.start(desk.another().accept, fsync);
    await send(topic, events.slice(500, 1_500));
    await until(() => desk.told.length > 1_000);
    await first.source.stop();
    await send(topic, events.slice(1_500));
    await until(async () => (await committed(topic)) === BigInt(total));
    await second.source.stop();
    const seen = ledger(desk.told);
    expect(seen.size).toBe(total);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });

  it("stores every message once when the server is killed in mid-stream and started again", async () => {
    const topic = await newTopic();
    const total = 3_000;
    await send(
      topic,
      Array.from({ length: total }, (_, i) => paid({ data: i })),
    );
    const { source, desk } = await openSource(fromKafka(options(topic, { maxInFlight: 50 })));
    await source.start(desk.intake.accept, fsync);
    await until(() => desk.told.length > 100);
    await server.kill();
    await until(() => source.readiness?.() !== undefined);
    await server.start();
    await until(async () => (await committed(topic).catch(() => 0n)) === BigInt(total));
    expect(source.readiness?.()).toBeUndefined();
    await source.stop();
    const seen = ledger(desk.told);
    expect(seen.size).toBe(total);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });
});

describe("the progress of a Kafka partition", () => {
  it("passes a message only when those before it are done, over gaps in the offsets", () => {
    const progress = createPartitionProgress();
    for (const offset of [3n, 4n, 9n]) progress.begin("a/0", offset);
    progress.begin("a/1", 0n);
    progress.end("a/0", 9n);
    progress.end("a/0", 4n);
    expect(progress.take()).toEqual([]);
    progress.end("a/0", 3n);
    expect(progress.take()).toEqual([["a/0", 10n]]);
    progress.end("a/1", 0n);
    expect(progress.take()).toEqual([["a/1", 1n]]);
    expect(progress.take()).toEqual([]);
  });
});

describe("the options of fromKafka()", () => {
  it("are checked before the start", () => {
    const problems = (options: unknown) => fromKafka(options as FromKafkaOptions).problems?.map(({ path }) => path);
    const right = { brokers: ["kafka:9092"], topics: ["orders"], groupId: "relay" };
    expect(problems(right)).toEqual([]);
    const sasl = { mechanism: "PLAIN", username: "me", password: { secretFrom: { env: "KAFKA_PASSWORD" } } };
    expect(problems({ ...right, sasl, from: "latest" })).toEqual([]);
    expect(problems({ brokers: "kafka:9092", topics: [], groupId: "", from: "now", sasl: {}, extra: 1 })).toEqual([
      ...["extra", "brokers", "topics", "groupId", "from", "sasl.mechanism", "sasl.username", "sasl.password"],
    ]);
  });
});
