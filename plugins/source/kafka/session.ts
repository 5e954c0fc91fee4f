/** Sessions with Kafka: each joins the group, takes messages until it fails or the source stops, and leaves the group. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { Consumer, Producer } from "@platformatic/kafka";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import { firstOf, kafkaOptions } from "../../brokers/kafka.ts";
import { connectedSource, settleEach, watchBacklog, type SessionSurroundings } from "../messages/connected.ts";
import { createDeadLetters } from "../messages/dead-letters.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf, type MessageOptions, type Poison, type Settled } from "../messages/message.ts";
import { createClaim, type Claim } from "./claim.ts";
import { readKafka, type KafkaMessage } from "./message.ts";

export interface FromKafkaOptions extends MessageOptions {
  /** Some brokers of the cluster: `["kafka-1:9092", "kafka-2:9092"]`. */
  readonly brokers: readonly string[];
  readonly topics: readonly string[];
  /** The consumer group. Relays with the same one share the partitions. */
  readonly groupId: string;
  /** Where a partition is read from that the group has no offset of. @default "earliest" */
  readonly from?: "earliest" | "latest";
  /** Most messages that are fetched and whose events are not stored. @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * The topic that a message without a valid event is written to, with the reason in its headers. Without it the relay
   * keeps the newest 1,000 of them in its own storage.
   */
  readonly deadLetterTopic?: string;
  /** `username` and `password` for PLAIN and SCRAM. */
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. `{}` asks for TLS with the system's authorities. */
  readonly tls?: TlsOptions;
}

type KafkaLibrary = Pick<typeof import("@platformatic/kafka"), "Consumer" | "Producer">;
type BytesProducer = Producer<Buffer, Buffer, Buffer, Buffer>;
type BytesConsumer = Consumer<Buffer, Buffer, Buffer, Buffer>;

const CLOSE_MS = 5_000;
const DEAD_CLOSE_MS = 2_000;
/** What is known of the topics is at most so old when an offset is committed. */
const SEEN_MS = 100;
/** All replicas in sync have it. */
const ALL = -1;
/** Asks Kafka for the first offset of a partition. */
const EARLIEST = -2n;

export function startKafka(ctx: PluginContext, options: FromKafkaOptions, library: KafkaLibrary): Source {
  const { clock } = ctx;
  const { topics, from = "earliest", maxInFlight = 1_000, deadLetterTopic } = options;
  const reading = readingOf(options, "kafka");
  const client = clientOptions(ctx, options);
  const dead = deadTopic(ctx, reading.source, deadLetterTopic, () => new library.Producer(client));
  const intake = createIntake<KafkaMessage>(ctx, {
    reading,
    maxInFlight,
    settle: settleEach(({ claim }) => claim, settleOn),
  });

  /** What cannot be noted would hold up the offset of all behind it: the session begins again at what is committed. */
  async function settleOn(claim: Claim, settled: readonly Settled<KafkaMessage>[]): Promise<void> {
    const done: KafkaMessage["original"][] = [];
    try {
      for (const { message, fate } of settled) {
        if (fate.kind === "returned") continue;
        if (fate.kind === "poison") await dead.setAside(message, fate, intake.stopping);
        done.push(message.original);
      }
      await claim.end(done);
    } catch (error) {
      claim.stream.destroy(error as Error);
      throw firstOf(error);
    }
  }

  async function session({ stopping, settled, connected }: SessionSurroundings): Promise<void> {
    const over = new AbortController();
    const failed = Promise.withResolvers<never>();
    const consumer: BytesConsumer = new library.Consumer(client);
    try {
      await unlessAborted(stopping, Promise.race([failed.promise, work()]));
      await settled;
    } catch (error) {
      throw firstOf(error);
    } finally {
      over.abort();
      await endsWithin(clock, CLOSE_MS, consumer.close(true));
    }

    async function work(): Promise<void> {
      consumer.on("error", failed.reject);
      consumer.on("consumer:heartbeat:stalled", () => failed.reject(new Error("Kafka does not answer heartbeats")));
      const look = () => consumer.metadata({ topics: [...topics], metadataMaxAge: SEEN_MS });
      const first = await look();
      const ids = topicIds(first);
      const sameTopics = async (): Promise<void> => {
        for (const [topic, id] of topicIds(await look()))
          if (ids.get(topic) !== id) throw new Error(`the topic ${topic} was made again`);
      };
      let claim: Claim | undefined;
      let dealing = Promise.resolve();
      const giveUp = (): void => {
        if (claim !== undefined) claim.over = true;
      };
      consumer.on("consumer:group:rebalance", giveUp);
      // One stream for each time that the group is dealt out: it begins at what is committed, and holds nothing of before.
      const deal = async (): Promise<void> => {
        const before = claim;
        const stream = await consumer.consume({ topics: [...topics], mode: "committed", fallbackMode: from });
        claim = createClaim(consumer, stream, sameTopics);
        void take(claim, ids).catch(failed.reject);
        // The new stream comes first: a consumer without any leaves its topics, and the group would be dealt out again.
        await before?.stream.close();
        connected();
      };
      await deal();
      consumer.on("consumer:group:join", () => {
        giveUp();
        dealing = dealing.then(deal).catch(failed.reject);
      });
      let dealt = [...first.topics.values()].reduce((sum, { partitionsCount }) => sum + partitionsCount, 0);
      await watchBacklog(ctx, reading.source, AbortSignal.any([over.signal, stopping]), async () => {
        const { waiting, partitions } = await backlogOf(consumer, topics, from);
        // The client does not look for partitions that are added: the group is dealt out again when its leader rejoins.
        if (partitions === dealt) return waiting;
        giveUp();
        await consumer.joinGroup({}).catch(failed.reject);
        dealt = partitions;
        return waiting;
      });
    }
  }

  async function take(claim: Claim, ids: ReadonlyMap<string, string>): Promise<void> {
    for await (const message of claim.stream) {
      // To leave the loop would close the stream before there is another.
      if (claim.over || intake.stopping.aborted) continue;
      claim.begin(message.topic, message.partition, message.offset);
      intake.offer([readKafka(message, ids.get(message.topic) ?? "", claim)]);
      await intake.room();
    }
    if (!claim.over && !intake.stopping.aborted) throw new Error("Kafka has ended the stream");
  }

  return connectedSource(intake, clock, session, dead);
}

/** Sets messages that hold no valid event aside: in a topic of their own, or in the plug-in's own store. */
function deadTopic(ctx: PluginContext, source: string, topic: string | undefined, connect: () => BytesProducer) {
  // An offset waits for none: what the topic does not take now is kept here.
  const dead = createDeadLetters(ctx, source, () => true);
  let producer: BytesProducer | undefined;
  return {
    /** Resolves when the message is kept: only then its offset may be committed. */
    async setAside(message: KafkaMessage, poison: Poison, ending: AbortSignal): Promise<void> {
      if (topic === undefined) return dead.keep(message, poison);
      const { key, value, headers, ...from } = message.original;
      const place = `${from.topic}/${from.partition}/${from.offset}`;
      const out = new Map(headers);
      for (const [name, text] of Object.entries({ code: poison.code, detail: poison.detail, place }))
        out.set(Buffer.from(`relay-${name}`), Buffer.from(text));
      const sent = (producer ??= connect());
      const messages = [{ topic, key, value, headers: out }];
      await dead.pass(message, poison, () => sent.send({ acks: ALL, messages }), ending);
    },
    async close(): Promise<void> {
      if (producer !== undefined) await endsWithin(ctx.clock, DEAD_CLOSE_MS, producer.close(true));
    },
  };
}

/** Kafka's id of each topic, shortened; empty where the brokers are older than such ids (2.8). */
function topicIds({ topics }: Awaited<ReturnType<BytesConsumer["metadata"]>>): ReadonlyMap<string, string> {
  return new Map([...topics].map(([name, { id }]) => [name, id.replaceAll(/[^0-9a-zA-Z]|^[0-]*$/g, "").slice(0, 8)]));
}

/** Counts the partitions of the topics, whoever reads them, and the messages behind what is committed of them. */
async function backlogOf(consumer: BytesConsumer, topics: readonly string[], from: "earliest" | "latest") {
  const ends = await consumer.listOffsets({ topics: [...topics] });
  const starts = from === "latest" ? ends : await consumer.listOffsets({ topics: [...topics], timestamp: EARLIEST });
  const asked = [...ends].map(([topic, all]) => ({ topic, partitions: [...all.keys()] }));
  const committed = await consumer.listCommittedOffsets({ topics: asked });
  let [waiting, partitions] = [0, 0];
  for (const [topic, all] of ends)
    for (const [i, end] of all.entries()) {
      const offset = committed.get(topic)?.[i] ?? -1n;
      waiting += Math.max(0, Number(end - (offset < 0n ? (starts.get(topic)?.[i] ?? end) : offset)));
      partitions++;
    }
  return { waiting, partitions };
}

const clientOptions = (ctx: PluginContext, options: FromKafkaOptions) => ({
  ...kafkaOptions(ctx, options, options.tls),
  clientId: "relaybox",
  groupId: options.groupId,
  autocommit: false,
  // A relay that was killed gives up its partitions soon.
  sessionTimeout: 10_000,
  heartbeatInterval: 3_000,
  rebalanceTimeout: 30_000,
  // The source connects again by itself, and says in /readyz why it cannot.
  retries: 1,
});
