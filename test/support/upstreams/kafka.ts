/** Kafka as an upstream: a topic, and a topic of dead letters. */
import { Admin, Producer } from "@platformatic/kafka";
import { fromKafka } from "../../../plugins/source/kafka.ts";
import { paid } from "../intake.ts";
import { startKafka } from "../kafka.ts";
import type { Upstream } from "../message-laws.ts";
import { openSource } from "../message-plugin.ts";
import { until } from "../until.ts";

type BytesProducer = Producer<Buffer, Buffer, Buffer, Buffer>;

export interface KafkaUpstream extends Upstream {
  readonly broker: string;
  readonly admin: Admin;
  readonly producer: BytesProducer;
  newTopic(partitions?: number): Promise<string>;
  /** Resolves to how far the group of a topic is, over its partitions. */
  committed(topic: string): Promise<bigint>;
  drop(topic: string): Promise<void>;
  add(topic: string): Promise<void>;
}

export async function kafkaUpstream(): Promise<KafkaUpstream> {
  const server = await startKafka();
  const client = { clientId: "test", bootstrapBrokers: [server.broker], retries: 20, retryDelay: 500 };
  const admin = new Admin(client);
  // Without it, a send that is tried again on a busy machine writes some messages twice.
  const producer: BytesProducer = new Producer({ ...client, idempotent: true });
  const sent = new Map<string, number>();
  let count = 0;
  async function newTopic(partitions = 1): Promise<string> {
    const topic = `orders${++count}`;
    await admin.createTopics({ topics: [topic], partitions, replicas: 1 });
    return topic;
  }
  // A group that has committed nothing yet is not known.
  async function committed(topic: string): Promise<bigint> {
    const groups = [{ groupId: `group-${topic}` }];
    const [group] = await admin.listConsumerGroupOffsets({ groups }).catch(() => []);
    const partitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? [];
    return partitions.reduce((sum, { committedOffset }) => sum + (committedOffset > 0n ? committedOffset : 0n), 0n);
  }
  return {
    server,
    port: server.port,
    broker: server.broker,
    admin,
    producer,
    newTopic,
    committed,
    from: fromKafka,
    factory: "fromKafka",
    async make() {
      const topic = await newTopic();
      await admin.createTopics({ topics: [`${topic}-dead`], partitions: 1, replicas: 1 });
      return topic;
    },
    options: (topic, maxInFlight) => ({
      ...{ brokers: [server.broker], topics: [topic], groupId: `group-${topic}`, deadLetterTopic: `${topic}-dead` },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    async send(topic, payloads, given = {}) {
      const headers = new Map(Object.entries(given).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]));
      const at = sent.get(topic) ?? 0;
      const messages = payloads.map((one, i) => ({
        topic,
        key: Buffer.from(`k${at + i}`),
        value: Buffer.from(one),
        headers,
      }));
      await producer.send({ messages, acks: -1 });
      sent.set(topic, at + payloads.length);
    },
    left: async (topic) => (sent.get(topic) ?? 0) - Number(await committed(topic)),
    async dead(topic) {
      const dead = `${topic}-dead`;
      const ends = await admin
        .listOffsets({ topics: [{ name: dead, partitions: [{ partitionIndex: 0, timestamp: -1n }] }] })
        .catch(() => []);
      const end = Number(ends[0]?.partitions[0]?.offset ?? 0n);
      if (end === 0) return [];
      const map = ({
        text,
        headers,
      }: {
        readonly text: string;
        readonly headers: Readonly<Record<string, string>>;
      }) => ({
        ...paid({ data: { payload: text, code: headers["relay-code"] } }),
      });
      const options = { brokers: [server.broker], topics: [dead], groupId: `reader-${++count}`, map };
      const { source, desk } = await openSource(fromKafka(options));
      await source.start(desk.intake.accept, { durability: "fsync" });
      await until(() => desk.told.length === end);
      await source.stop();
      return desk.told.map(({ body }) => (JSON.parse(body) as { data: { payload: string; code: unknown } }).data);
    },
    async refuseDead(topic) {
      await admin.deleteTopics({ topics: [`${topic}-dead`] });
      return () => Promise.resolve();
    },
    async drop(topic) {
      await admin.deleteTopics({ topics: [topic] });
    },
    async add(topic) {
      // The server answers before it has deleted everything.
      await until(() =>
        admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }).then(
          () => true,
          () => false,
        ),
      );
      producer.clearMetadata();
    },
    async [Symbol.asyncDispose]() {
      await producer.close();
      await admin.close();
      await server[Symbol.asyncDispose]();
    },
  };
}
