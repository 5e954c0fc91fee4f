// Kafka as a source. Debian has no package of Kafka: what needs a server runs where KAFKA_HOME names its published jars.
import { describe, expect, it } from "vitest";
import { Claim } from "../../plugins/source/kafka/claim.ts";
import { fromKafka } from "../../plugins/source/kafka.ts";
import type { FromKafkaOptions } from "../../plugins/source/kafka/session.ts";
import { topicsRead } from "../../plugins/source/kafka/topics.ts";
import { desk as makeDesk, paid } from "../support/intake.ts";
import { needsKafka } from "../support/kafka.ts";
import { describeMessageSource, hasty, SEEN_MS } from "../support/message-laws.ts";
import { ledger, openSource } from "../support/message-plugin.ts";
import { quietMetrics } from "../support/quiet.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { eventually, until } from "../support/until.ts";
import { kafkaUpstream, type KafkaUpstream } from "../support/upstreams/kafka.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: number): string => JSON.stringify(paid({ data }));

describeMessageSource({
  name: "Kafka",
  missing: needsKafka(),
  start: kafkaUpstream,
  differences: (kafka) => ({
    firstId: (topic) => new RegExp(`^${topic}:[0-9a-zA-Z]{8}:0:0$`),
    cloudPrefix: "ce_",
    remake: { drop: (topic) => kafka().drop(topic), add: (topic) => kafka().add(topic) },
  }),
  more: ownLaws,
});

function ownLaws(kafka: () => KafkaUpstream): void {
  const options = (topic: string, more: Partial<FromKafkaOptions> = {}): FromKafkaOptions => ({
    ...{ brokers: [kafka().broker], topics: [topic], groupId: `group-${topic}` },
    ...more,
  });

  it.each([1, 2])(
    "reads partitions that are added to its topic, and counts what waits in them, by %i",
    async (nodes) => {
      const topic = await kafka().newTopic();
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
      await kafka().send(topic, [event(0)]);
      await until(async () => (await kafka().left(topic)) === 0);
      const open = Promise.withResolvers<void>();
      gate = open.promise;
      await kafka().admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] });
      kafka().producer.clearMetadata();
      const messages = Array.from({ length: 8 }, (_, i) => ({
        ...{ topic, partition: i % 4, key: Buffer.from("k"), value: Buffer.from(event(1 + i)) },
      }));
      await kafka().producer.send({ messages, acks: -1 });
      await eventually("all partitions are counted", () => waiting.at(-1) === 8, SEEN_MS);
      open.resolve();
      await eventually("all partitions are read", () => desk.told.length === 9, SEEN_MS);
      await eventually("nothing waits", () => waiting.at(-1) === 0, SEEN_MS);
      expect(source.readiness?.()).toBeUndefined();
      await source.stop();
      expect(ledger(desk.told).size).toBe(9);
    },
  );

  it("goes on after a restart where it had stopped", async () => {
    const topic = await kafka().newTopic();
    for (const data of [1, 2]) {
      await kafka().send(topic, [event(data)]);
      const { source, desk } = await openSource(fromKafka(options(topic)));
      await source.start(desk.intake.accept, fsync);
      await until(async () => (await kafka().left(topic)) === 0);
      await source.stop();
      expect([...ledger(desk.told).keys()]).toEqual([data]);
    }
  });

  it("keeps messages without a valid event in its own store where no topic is named", async () => {
    const topic = await kafka().newTopic();
    await kafka().send(topic, ["{", event(1), JSON.stringify(paid({ keyId: "not a key" }))]);
    const { source, desk, store } = await openSource(fromKafka(options(topic)));
    await source.start(desk.intake.accept, fsync);
    await until(async () => (await kafka().left(topic)) === 0);
    await source.stop();
    expect(desk.told).toHaveLength(1);
    const kept = [...store.rows.values()].map((text) => JSON.parse(text) as { code: string; payload: string });
    expect(kept.map(({ code }) => code)).toEqual(["INVALID_JSON", "VALIDATION_FAILED"]);
    expect(Buffer.from(kept[0]?.payload ?? "", "base64").toString()).toBe("{");
  });

  it("shares the partitions with another relay, and takes over those of one that leaves", async () => {
    const topic = await kafka().newTopic(4);
    const desk = makeDesk();
    const [first, second] = [await openSource(fromKafka(options(topic))), await openSource(fromKafka(options(topic)))];
    await first.source.start(desk.intake.accept, fsync);
    const total = 2_000;
    const events = Array.from({ length: total }, (_, i) => event(i));
    await kafka().send(topic, events.slice(0, 500));
    await until(() => desk.told.length > 0);
    // Two relays on one storage, joined and left in mid-stream.
    await second.source.start(desk.another().accept, fsync);
    await kafka().send(topic, events.slice(500, 1_500));
    await until(() => desk.told.length > 1_000);
    await first.source.stop();
    await kafka().send(topic, events.slice(1_500));
    await until(async () => (await kafka().left(topic)) === 0);
    await second.source.stop();
    const seen = ledger(desk.told);
    expect(seen.size).toBe(total);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });
}

describe("the claim of a Kafka consumer", () => {
  it("commits a message only when those before it are done, over gaps in the offsets", async () => {
    const commits: string[] = [];
    const commit = async ({ offsets }: { offsets: readonly { partition: number; offset: bigint }[] }) => {
      commits.push(offsets.map(({ partition, offset }) => `${partition}:${offset}`).join());
    };
    const claim = new Claim({ commit } as never, {} as never, () => Promise.resolve());
    const at = (partition: number, offset: bigint) => ({ topic: "a", partition, offset });
    for (const offset of [3n, 4n, 9n]) claim.begin(at(0, offset));
    claim.begin(at(1, 0n));
    await claim.end([at(0, 9n), at(0, 4n)]);
    expect(commits).toEqual([]);
    await claim.end([at(0, 3n)]);
    await claim.end([at(1, 0n)]);
    await claim.end([]);
    expect(commits).toEqual(["0:10", "1:1"]);
  });

  it("commits nothing while a topic may have been made again, nor once the group is dealt out again", async () => {
    const commit = () => expect.fail("it has committed");
    const place = { topic: "a", partition: 0, offset: 0n };
    const claim = new Claim({ commit } as never, {} as never, () => Promise.reject(new Error("it was made again")));
    claim.begin(place);
    await expect(claim.end([place])).rejects.toThrow("made again");
    const over = new Claim({ commit } as never, {} as never, () => Promise.resolve());
    over.begin(place);
    over.isOver = true;
    await over.end([place]);
  });

  it("notices a topic that was made again a moment ago, which the client still knows as it was", async () => {
    const known = (id: string) => ({ topics: new Map([["a", { id, partitionsCount: 1 }]]) });
    let [there, cached] = [known("11111111"), undefined as ReturnType<typeof known> | undefined];
    const metadata = async ({ forceUpdate = false }) => (forceUpdate ? (cached = there) : (cached ??= there));
    const read = await topicsRead({ metadata } as never, ["a"], "earliest");
    await read.unlessMadeAgain();
    there = known("22222222");
    await expect(read.unlessMadeAgain()).rejects.toThrow("the topic a was made again");
  });
});
