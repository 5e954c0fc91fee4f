/** The Kafka transport against a real broker where KAFKA_HOME has one; how it batches, and its options, everywhere. */
import { Admin, Consumer, findErrorBy, MultipleErrors, ProtocolError } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Transport } from "../../core/ports/transport.ts";
import {
  Batches,
  type OutgoingMessage,
  type MessagePlace,
  type SendBatch,
} from "../../plugins/transport/kafka/batches.ts";
import { toKafka } from "../../plugins/transport/kafka.ts";
import type { ToKafkaOptions } from "../../plugins/transport/kafka/transport.ts";
import { KafkaBus } from "../../plugins/transport/kafka/transport.ts";
import { describeTransport, type FarRequest } from "../conformance/transport.ts";
import {
  busBench,
  busContext,
  keptLog,
  NO_BUS_CAN,
  sendTo,
  setUp,
  textOf,
  whenNotReady,
  whenReady,
} from "../support/bus-bench.ts";
import { needsKafka, startKafka, type KafkaServer } from "../support/kafka.ts";
import { until } from "../support/until.ts";
import { freePort } from "../../tools/free-port.ts";

const missing = needsKafka();

describe.skipIf(missing !== undefined)(`the Kafka transport${missing ? ` (skipped: ${missing})` : ""}`, () => {
  let kafka: KafkaServer;
  let count = 0;
  const opened: Transport[] = [];

  beforeAll(async () => {
    kafka = await startKafka();
    await topics("deposits", "keyed", "killed");
  });
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.dispose()));
    await kafka[Symbol.asyncDispose]();
  });

  async function topics(...names: readonly string[]): Promise<void> {
    const admin = new Admin({ clientId: "test", bootstrapBrokers: [kafka.broker] });
    await admin.createTopics({ topics: [...names], partitions: 4, replicas: 1 });
    await admin.close();
  }

  const open = async (more: Partial<ToKafkaOptions> = {}): Promise<Transport> => {
    const transport = await setUp(toKafka({ name: "bus", brokers: [kafka.broker], ...more }));
    opened.push(transport);
    await whenReady(transport);
    return transport;
  };

  interface Found extends FarRequest {
    readonly key: string;
    readonly partition: number;
  }

  /** The first messages of a topic. */
  async function messages(topic: string, least: number): Promise<readonly Found[]> {
    const consumer = new Consumer({ groupId: `test-${++count}`, clientId: "test", bootstrapBrokers: [kafka.broker] });
    const found: Found[] = [];
    const stream = await consumer.consume({ topics: [topic], mode: "earliest", autocommit: false });
    for await (const { key, value, headers, partition } of stream) {
      const named = Object.fromEntries([...headers].map(([name, text]) => [String(name), String(text)]));
      found.push({ key: String(key), body: value, headers: named, partition });
      if (found.length >= least) break;
    }
    await consumer.close(true);
    return found;
  }

  describe("the law of transports", () => {
    describeTransport(it, {
      cannot: {
        ...NO_BUS_CAN,
        hang: "a broker tells its clients its own address, so that they pass by what stands between",
      },
      async open() {
        const topic = `law-${++count}`;
        await topics(topic);
        const bench = await busBench({
          port: kafka.port,
          plugin: () => toKafka({ name: "bus", brokers: [kafka.broker] }),
          url: `kafka://bus/${topic}`,
          nowhere: "kafka://bus/no-such-topic",
          read: () => Promise.resolve([]),
        });
        return { ...bench, arrived: (least) => messages(topic, least) };
      },
    });
  });

  it("sends the body with the headers as they are and the message id, keyed by the API key", async () => {
    const transport = await open();
    const headers = { "Content-Type": "application/json", "webhook-signature": "v1,abc=" };
    const reply = await sendTo(transport, "kafka://bus/deposits", { headers, messageId: "dlv_1" });
    expect(textOf(reply)).toMatch(/^200 topic deposits, partition \d, offset 0$/);
    const [message] = await messages("deposits", 1);
    expect(message).toMatchObject({ key: "key_1", headers: { ...headers, messageId: "dlv_1" } });
    expect(Buffer.from(message?.body ?? "").toString()).toBe('{"id":"evt_1","keyId":"key_1","data":{"n":1}}');
  });

  it("keys by a value of the event, and keeps the order of a key", async () => {
    const transport = await open({ key: "data.customer.id" });
    const bodies = Array.from({ length: 60 }, (_, n) =>
      Buffer.from(JSON.stringify({ n, data: n === 0 ? {} : { customer: { id: n % 6 } } })),
    );
    const replies = await Promise.all(bodies.map((body) => sendTo(transport, "kafka://bus/keyed", { body })));
    for (const reply of replies) expect(textOf(reply)).toMatch(/^200 topic keyed/);
    const found = await messages("keyed", 60);
    const byKey = Map.groupBy(found, ({ key }) => key);
    expect([...byKey.keys()].sort()).toEqual(["0", "1", "2", "3", "4", "5", "key_1"]);
    for (const [, those] of byKey) {
      expect(new Set(those.map(({ partition }) => partition)).size).toBe(1);
      const order = those.map(({ body }) => (JSON.parse(Buffer.from(body).toString()) as { n: number }).n);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }
  });

  it("says of a topic that is not there, or a message too large, that it will not do", async () => {
    const transport = await open();
    expect(textOf(await sendTo(transport, "kafka://bus/nowhere"))).toBe("error Unknown topic nowhere.");
    const large = await sendTo(transport, "kafka://bus/deposits", { body: Buffer.alloc(2_000_000) });
    expect(textOf(large)).toMatch(/^error the message is larger than the topic takes/);
    expect(transport.readiness?.()).toBeUndefined();
  });

  it("is away while the broker is killed, ends what is under way, comes back by itself, and says both", async () => {
    const { log, said } = keptLog();
    const transport = await setUp(toKafka({ name: "bus", brokers: [kafka.broker] }), { log });
    opened.push(transport);
    await whenReady(transport);
    await sendTo(transport, "kafka://bus/killed");
    kafka.pause();
    const sending = sendTo(transport, "kafka://bus/killed");
    await kafka.kill();
    expect(textOf(await sending)).toBe("unavailable the connection bus is away");
    expect(await whenNotReady(transport)).toBe("is not connected");
    await kafka.start();
    await whenReady(transport);
    expect(textOf(await sendTo(transport, "kafka://bus/killed"))).toMatch(/^200/);
    expect(said).toContain("warn a connection to Kafka failed");
    expect(said.filter((line) => line === "info the connection to Kafka is there again")).toHaveLength(1);
    expect(said.at(-1)).toBe("info the connection to Kafka is there again");
  });
});

it("starts without a broker, and says so", async () => {
  const { log, said } = keptLog();
  const transport = await setUp(toKafka({ name: "bus", brokers: [`127.0.0.1:${await freePort()}`] }), { log });
  expect(transport.readiness?.()).toBe("is not connected");
  expect(await sendTo(transport, "kafka://bus/a")).toMatchObject({ kind: "unavailable" });
  await until(() => said.length > 0);
  expect(said).toEqual(["warn a connection to Kafka failed"]);
  await transport.dispose();
});

it("says of a topic without enough replicas that it is away, and goes on with all others", async () => {
  const answer = new ProtocolError("NOT_ENOUGH_REPLICAS");
  let metadata = () => Promise.resolve({});
  class Producer {
    metadata = () => metadata();
    close = () => Promise.resolve();
    send({ messages: [message] }: { readonly messages: readonly [{ readonly topic: string }] }) {
      const refused = message.topic === "bad";
      return refused ? Promise.reject(new MultipleErrors("", [answer])) : Promise.resolve({ offsets: [] });
    }
  }
  const plugin = toKafka({ name: "bus", brokers: ["kafka:9092"] });
  const { log, said } = keptLog();
  const client = { Producer: Producer as never, findErrorBy };
  const transport = new KafkaBus(
    { name: "bus", brokers: ["kafka:9092"] },
    busContext(plugin, { log }),
    client,
  ).connect();
  await whenReady(transport);
  metadata = () => new Promise(() => {});
  for (let times = 0; times < 2; times++) {
    expect(await sendTo(transport, "kafka://bus/bad")).toMatchObject({ kind: "unavailable" });
    expect(transport.readiness?.()).toBe("takes nothing for a topic (NOT_ENOUGH_REPLICAS)");
  }
  expect(textOf(await sendTo(transport, "kafka://bus/good"))).toMatch(/^200/);
  expect(transport.readiness?.()).toBeUndefined();
  expect(said).toEqual(["warn Kafka takes no messages"]);
  await transport.dispose();
});

describe("batches", () => {
  const message = (topic: string, bytes = 10): OutgoingMessage => ({
    topic,
    key: Buffer.from("k"),
    value: Buffer.alloc(bytes),
    headers: new Map(),
  });
  const opened = () => {
    const sent: {
      readonly messages: OutgoingMessage[];
      readonly answer: PromiseWithResolvers<readonly MessagePlace[]>;
    }[] = [];
    const batches = new Batches(
      (messages) => {
        const answer = Promise.withResolvers<readonly MessagePlace[]>();
        sent.push({ messages, answer });
        return answer.promise;
      },
      () => false,
    );
    const turn = () => new Promise((turned) => setImmediate(() => setImmediate(turned)));
    return { sent, batches, turn };
  };
  const stays = () => false;

  it("have what came while the one before was under way, and never wait for another topic", async () => {
    const { sent, batches, turn } = opened();
    const first = [batches.add(message("a"), stays), batches.add(message("a"), stays)];
    await turn();
    const second = batches.add(message("a"), stays);
    const other = batches.add(message("b"), stays);
    await turn();
    expect(sent.map(({ messages }) => messages.map(({ topic }) => topic))).toEqual([["a", "a"], ["b"]]);
    sent[1]?.answer.resolve([]);
    expect(await other).toBeUndefined();
    sent[0]?.answer.resolve([{ partition: 2, offset: 40n }]);
    expect(await Promise.all(first)).toEqual([
      { partition: 2, offset: 40n },
      { partition: 2, offset: 41n },
    ]);
    await turn();
    sent[2]?.answer.resolve([{ partition: 2, offset: 42n }]);
    expect(await second).toEqual({ partition: 2, offset: 42n });
  });

  it("stay below what a broker takes, but for a message that is larger by itself", async () => {
    const { sent, batches, turn } = opened();
    const all = [400_000, 400_000, 900_000, 10].map((bytes) => batches.add(message("a", bytes), stays));
    for (let i = 0; i < 4; i++) {
      await turn();
      sent[i]?.answer.resolve([]);
    }
    await Promise.all(all);
    expect(sent.map(({ messages }) => messages.map(({ value }) => value.length))).toEqual([
      [400_000],
      [400_000],
      [900_000],
      [10],
    ]);
  });

  it("that a topic does not take are sent in halves, until only what it refuses by itself has failed", async () => {
    const sent: number[] = [];
    const send: SendBatch = async (messages) => {
      sent.push(messages.length);
      // As a topic with max.message.bytes=100000, which bounds a batch.
      if (messages.reduce((sum, { value }) => sum + value.length, 0) > 100_000) throw new Error("too large");
      return [{ partition: 0, offset: BigInt(sent.length) }];
    };
    const batches = new Batches(send, (error) => String(error).includes("too large"));
    const sizes = [1_000, 150_000, 1_000, 1_000];
    const all = await Promise.allSettled(sizes.map((bytes) => batches.add(message("a", bytes), stays)));
    expect(all.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect(sent).toEqual([4, 2, 1, 1, 2]);
    expect(all.at(-1)).toMatchObject({ value: { partition: 0, offset: 6n } });
  });

  it("count the keys and headers of their messages too", async () => {
    const { sent, batches, turn } = opened();
    const headers = new Map([[Buffer.from("note"), Buffer.alloc(300_000)]]);
    const large = [
      { ...message("a"), headers },
      { ...message("a"), key: Buffer.alloc(300_000) },
    ];
    const all = large.map((one) => batches.add(one, stays));
    for (let i = 0; i < large.length; i++) {
      await turn();
      sent[i]?.answer.resolve([]);
    }
    await Promise.all(all);
    expect(sent.map(({ messages }) => messages.length)).toEqual([1, 1]);
  });

  it("leave out what nobody waits for any more, and fail alone", async () => {
    const { sent, batches, turn } = opened();
    void batches.add(message("a"), () => true);
    const kept = batches.add(message("a"), stays);
    await turn();
    expect(sent[0]?.messages).toHaveLength(1);
    sent[0]?.answer.reject(new Error("no leader"));
    await expect(kept).rejects.toThrow("no leader");
    const next = batches.add(message("a"), stays);
    await turn();
    sent[1]?.answer.resolve([]);
    expect(await next).toBeUndefined();
  });
});

it("takes a topic for a URL, and none that Kafka keeps for itself", async () => {
  const transport = await setUp(toKafka({ name: "bus", brokers: [`127.0.0.1:${await freePort()}`] }));
  for (const good of ["deposits", "a.b_c-D0"])
    expect(await transport.problems?.(`kafka://bus/${good}`), good).toBeUndefined();
  for (const bad of ["", "__consumer_offsets", "a/b", "a b", ".", "..", "x".repeat(250)])
    expect(await transport.problems?.(`kafka://bus/${bad}`), bad).toMatch(/^must be kafka:\/\/bus\/ and a topic/);
  await transport.dispose();
});

it("judges its options before the start", () => {
  const paths = (options: object) => toKafka(options as ToKafkaOptions).problems?.map(({ path }) => path);
  const sasl = { mechanism: "PLAIN", username: "relay", password: { secretFrom: { env: "P" } } };
  expect(paths({ name: "bus", brokers: ["a:9092"], key: "data.customer.id", sasl })).toEqual([]);
  expect(paths({ name: "bus", brokers: "a:9092", key: "id", sasl: { mechanism: "X" } })).toEqual([
    "brokers",
    "key",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
  ]);
});
