/** Kafka: a topic with four partitions for each destination. */
import { Admin, Consumer } from "@platformatic/kafka";
import { toKafka } from "../../../plugins/transport/kafka.ts";
import type { Arrived, BusHarness, FarBus } from "../bus-laws.ts";
import { needsKafka, startKafka } from "../kafka.ts";

interface FarMessage extends Arrived {
  readonly key: string;
  readonly partition: number;
}

interface FarKafka extends FarBus {
  arrived(url: string, least: number): Promise<readonly FarMessage[]>;
}

const sasl = { mechanism: "PLAIN", username: "relay", password: { secretFrom: { env: "P" } } };
const ADVERTISED = "a broker tells its clients its own address, so that they pass by what stands between";

export const kafkaBus: BusHarness<FarKafka> = {
  system: "Kafka",
  missing: needsKafka(),
  make: toKafka,
  options: (at) => ({ name: "bus", brokers: [at] }),
  everyOption: { name: "bus", brokers: ["a:9092"], key: "data.customer.id", sasl, tls: { caFile: "ca.pem" } },
  wrongOptions: [
    [
      { brokers: "a:9092", key: "id", sasl: { mechanism: "X" } },
      ...["brokers", "key", "sasl.mechanism", "sasl.username", "sasl.password"],
    ],
  ],
  urls: {
    rule: "a topic",
    right: ["deposits", "a.b_c-D0"],
    wrong: ["", "__consumer_offsets", "a/b", "a b", ".", "..", "x".repeat(250)],
  },
  cannot: { between: ADVERTISED },
  place: /^200 topic law\d+, partition \d, offset \d+$/,
  refused: ["kafka://bus/nowhere", /^error Unknown topic nowhere\.$/],
  async start() {
    const server = await startKafka();
    const client = { clientId: "test", bootstrapBrokers: [server.broker] };
    let count = 0;
    return {
      at: server.broker,
      server,
      async destination(name) {
        const admin = new Admin(client);
        await admin.createTopics({ topics: [name], partitions: 4, replicas: 1 });
        await admin.close();
        return `kafka://bus/${name}`;
      },
      async arrived(url, least) {
        const consumer = new Consumer({ ...client, groupId: `test-${++count}` });
        const found: FarMessage[] = [];
        const topics = [url.slice("kafka://bus/".length)];
        const stream = await consumer.consume({ topics, mode: "earliest", autocommit: false });
        for await (const { key, value, headers: given, partition } of stream) {
          const all = [...given].map(([name, text]) => [String(name), String(text)]);
          const { messageId = "", ...headers } = Object.fromEntries(all) as Record<string, string>;
          found.push({ key: String(key), body: value, headers, messageId, partition });
          if (found.length >= least) break;
        }
        await consumer.close(true);
        return found;
      },
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
};
