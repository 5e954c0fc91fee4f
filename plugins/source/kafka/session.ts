/** Sessions with Kafka: each joins the group, takes messages until it fails or the source stops, and leaves the group. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { Producer } from "@platformatic/kafka";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import { kafkaOptions } from "../../brokers/kafka.ts";
import { byConnection, connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake, type Upstream } from "../messages/intake.ts";
import type { MessageOptions, Poison, Reading } from "../messages/message.ts";
import { Claim, readKafka, type BytesConsumer, type KafkaMessage } from "./claim.ts";
import { topicsRead } from "./topics.ts";

export interface FromKafkaOptions extends MessageOptions {
  /** Some brokers of the cluster: `["kafka-1:9092", "kafka-2:9092"]`. */
  readonly brokers: readonly string[];
  readonly topics: readonly string[];
  /** The consumer group. Relays with the same one share the partitions. */
  readonly groupId: string;
  /** Where a partition without an offset of the group is read from. @default "earliest" */
  readonly from?: "earliest" | "latest";
  /** Most messages that are fetched and whose events are not stored. @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * Takes messages without a valid event, with the reason in the headers. Without it the relay keeps the newest 1,000.
   */
  readonly deadLetterTopic?: string;
  /** `username` and `password` for PLAIN and SCRAM. */
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. `{}`: the system's authorities. */
  readonly tls?: TlsOptions;
}

type KafkaLibrary = Pick<typeof import("@platformatic/kafka"), "Consumer" | "Producer">;
type BytesProducer = Producer<Buffer, Buffer, Buffer, Buffer>;

const CLOSE_MS = 5_000;
const DEAD_CLOSE_MS = 2_000;
/** All replicas in sync have it. */
const ALL = -1;

export function startKafka(ctx: PluginContext, options: FromKafkaOptions & Reading, library: KafkaLibrary): Source {
  const { clock } = ctx;
  const { topics, source, from = "earliest", maxInFlight = 1_000, deadLetterTopic } = options;
  const client = clientOptions(ctx, options);
  const dead = deadTopic(ctx, source, deadLetterTopic, () => new library.Producer(client));
  const intake: Intake<KafkaMessage> = new Intake(ctx, {
    reading: options,
    maxInFlight,
    upstream: upstreamOf((message, poison) => dead.setAside(message, poison, intake.stopping)),
  });

  async function session(life: SessionLife): Promise<void> {
    const failed = Promise.withResolvers<never>();
    const consumer: BytesConsumer = new library.Consumer(client);
    consumer.on("error", failed.reject);
    consumer.on("consumer:heartbeat:stalled", () => failed.reject(new Error("Kafka does not answer heartbeats")));
    try {
      await unlessAborted(life.stopping, Promise.race([failed.promise, consume(consumer, failed.reject, life)]));
      await life.settled;
    } finally {
      await endsWithin(clock, CLOSE_MS, consumer.close(true));
    }
  }

  async function consume(
    consumer: BytesConsumer,
    fail: (error: unknown) => void,
    { ending, connected }: SessionLife,
  ): Promise<void> {
    const read = await topicsRead(consumer, topics, from);
    let claim: Claim | undefined;
    let dealing = Promise.resolve();
    const giveUp = (): void => {
      if (claim !== undefined) claim.isOver = true;
    };
    consumer.on("consumer:group:rebalance", giveUp);
    // One stream for each time that the group is dealt out: it begins at what is committed, and holds nothing of before.
    const deal = async (): Promise<void> => {
      const before = claim;
      const stream = await consumer.consume({ topics: [...topics], mode: "committed", fallbackMode: from });
      claim = new Claim(consumer, stream, read.unlessMadeAgain);
      void take(claim, read.idOf).catch(fail);
      // The new stream comes first: a consumer without any leaves its topics, and the group would be dealt out again.
      await before?.stream.close();
      connected();
    };
    await deal();
    consumer.on("consumer:group:join", () => {
      giveUp();
      dealing = dealing.then(deal).catch(fail);
    });
    await watchBacklog(clock, intake, ending, async () => {
      const { waiting, isWider } = await read.backlog();
      if (!isWider) return { count: waiting };
      // The client does not notice partitions that are added: the group is dealt out again when its leader rejoins.
      giveUp();
      await consumer.joinGroup({}).catch(fail);
      return { count: waiting };
    });
  }

  async function take(claim: Claim, idOf: (topic: string) => string): Promise<void> {
    for await (const message of claim.stream) {
      // To leave the loop would close the stream before there is another.
      if (claim.isOver || intake.stopping.aborted) continue;
      claim.begin(message);
      intake.offer([readKafka(message, idOf(message.topic), claim)]);
      await intake.room();
    }
    if (!claim.isOver && !intake.stopping.aborted) throw new Error("Kafka has ended the stream");
  }

  return connectedSource(intake, clock, session, dead);
}

function upstreamOf(keep: (message: KafkaMessage, poison: Poison) => Promise<void>): Upstream<KafkaMessage> {
  /** A message that cannot be noted would hold up the offset of all behind it: the session begins again at what is committed. */
  async function end(claim: Claim, messages: readonly KafkaMessage[], kept?: () => Promise<void>): Promise<void> {
    try {
      await kept?.();
      await claim.end(messages.map(({ original }) => original));
    } catch (error) {
      claim.stream.destroy(error as Error);
      throw error;
    }
  }
  return {
    stored: (messages) => byConnection(messages, ({ claim }) => claim, end),
    setAside: (message, poison) => end(message.claim, [message], () => keep(message, poison)),
  };
}

/** Sets messages that hold no valid event aside: in a topic of their own, or in the plug-in's own store. */
function deadTopic(ctx: PluginContext, source: string, topic: string | undefined, connect: () => BytesProducer) {
  // An offset waits for none: what the topic does not take now is kept here.
  const dead = new DeadLetters(ctx, source, () => true);
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
