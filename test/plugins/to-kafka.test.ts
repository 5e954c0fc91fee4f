/** The Kafka transport against a real broker where KAFKA_HOME has one; how it batches, and its options, everywhere. */
import { findErrorBy, MultipleErrors, ProtocolError } from "@platformatic/kafka";
import { describe, expect, it } from "vitest";
import {
  topicBatches,
  type OutgoingMessage,
  type MessagePlace,
  type SendBatch,
} from "../../plugins/transport/kafka/batches.ts";
import { toKafka } from "../../plugins/transport/kafka.ts";
import { KafkaBus } from "../../plugins/transport/kafka/transport.ts";
import { busContext, keptLog, sendTo, textOf, whenReady } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { kafkaBus } from "../support/buses/kafka.ts";

describeBus(kafkaBus, (stage) => {
  const { open } = stage;

  it("keys by a value of the event, and keeps the order of a key", async () => {
    const transport = await open({ key: "data.customer.id" });
    const url = await stage.far.destination("keyed");
    const bodies = Array.from({ length: 60 }, (_, n) =>
      Buffer.from(JSON.stringify({ n, data: n === 0 ? {} : { customer: { id: n % 6 } } })),
    );
    const replies = await Promise.all(bodies.map((body) => sendTo(transport, url, { body })));
    for (const reply of replies) expect(textOf(reply)).toMatch(/^200 topic keyed/);
    const found = await stage.far.arrived(url, 60);
    const byKey = Map.groupBy(found, ({ key }) => key);
    expect([...byKey.keys()].sort()).toEqual(["0", "1", "2", "3", "4", "5", "key_1"]);
    for (const [, those] of byKey) {
      expect(new Set(those.map(({ partition }) => partition)).size).toBe(1);
      const order = those.map(({ body }) => (JSON.parse(Buffer.from(body).toString()) as { n: number }).n);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }
  });

  it("says of a message too large that it will not do", async () => {
    const transport = await open();
    const url = await stage.far.destination("large");
    const large = await sendTo(transport, url, { body: Buffer.alloc(2_000_000) });
    expect(textOf(large)).toMatch(/^error the message is larger than the topic takes/);
    expect(transport.readiness?.()).toBeUndefined();
  });
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
    const batches = topicBatches(
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
    const batches = topicBatches(send, (error) => String(error).includes("too large"));
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
