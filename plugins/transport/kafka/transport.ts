/** The transport behind `toKafka()`, loaded only where a config names it. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { kafkaOptions } from "../../brokers/kafka.ts";
import { AskedBus } from "../buses/bus.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import { keyOf } from "../buses/ordering-key.ts";
import type { Sending } from "../buses/sending.ts";
import { topicBatches, type OutgoingMessage } from "./batches.ts";

export interface ToKafkaOptions {
  /** Its name in URLs: `kafka://<name>/deposits`. */
  readonly name: string;
  /** `host:9092` of some brokers. */
  readonly brokers: readonly string[];
  /**
   * Chooses the partition: `keyId`, or a path of the event such as `data.customer.id`, where that has a value. @default
   * "keyId"
   */
  readonly key?: string;
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** `caFile`: path of a PEM file, in place of the system's authorities. */
  readonly tls?: { readonly caFile?: string };
}

/** Topics that Kafka keeps for itself begin with `__`. */
const TOPIC = /^([A-Za-z0-9][A-Za-z0-9._-]{0,248})$/;
const RULE = "a topic: letters, digits and . _ -, such as deposits";

/** Wait for a connection and for an answer of a broker, ms. */
const ANSWER_MS = 5_000;

/** Answers that concern the topic or the message, not the brokers. */
const REFUSALS: Readonly<Record<string, string>> = {
  UNKNOWN_TOPIC_OR_PARTITION: "the topic is not there",
  TOPIC_AUTHORIZATION_FAILED: "the relay may not write to the topic",
  INVALID_TOPIC_EXCEPTION: "the topic cannot be written to",
  MESSAGE_TOO_LARGE: "the message is larger than the topic takes",
  RECORD_LIST_TOO_LARGE: "the message is larger than the topic takes",
  INVALID_RECORD: "the topic refuses the message",
  POLICY_VIOLATION: "the topic refuses the message",
};

/** Those of them that one message of a batch may bring on the others. */
const OF_ONE_MESSAGE = ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "POLICY_VIOLATION"];

/** Answers that a topic takes nothing now: the brokers are there, and other topics may take what they are sent. */
const TOPIC_IS_AWAY = [
  ...["LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE", "REQUEST_TIMED_OUT"],
  ...["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR"],
];

type KafkaClient = Pick<typeof import("@platformatic/kafka"), "Producer" | "findErrorBy">;

export class KafkaBus extends AskedBus {
  readonly #key: string;
  readonly #producer: InstanceType<KafkaClient["Producer"]>;
  readonly #findErrorBy: KafkaClient["findErrorBy"];
  readonly #batches: ReturnType<typeof topicBatches>;

  constructor(options: ToKafkaOptions, context: PluginContext, { Producer, findErrorBy }: KafkaClient) {
    const { name, key = "keyId", tls } = options;
    super({ scheme: "kafka", name, system: "Kafka", takes: "messages", pattern: TOPIC, rule: RULE }, context);
    this.#key = key;
    this.#findErrorBy = findErrorBy;
    this.#producer = new Producer({
      ...kafkaOptions(context, options, readTls(`kafka:${name}`, tls, context.configDir)),
      clientId: "relay",
      acks: -1,
      idempotent: true,
      autocreateTopics: false,
      connectTimeout: ANSWER_MS,
      requestTimeout: ANSWER_MS,
      timeout: ANSWER_MS,
      // The client takes 0 and 1 of an idempotent producer for "without end".
      retries: 2,
      retryDelay: 100,
    });
    this.#batches = topicBatches(
      async (messages) => (await this.#producer.send({ messages })).offsets ?? [],
      (error) => error instanceof Error && OF_ONE_MESSAGE.some((apiId) => this.#answers(error, apiId)),
    );
  }

  protected ask(): Promise<unknown> {
    return this.#producer.metadata({ topics: [], forceUpdate: true });
  }

  /** The client answers all that it was given, also once it has found no broker. */
  protected override endSends(): void {}

  protected async publish(
    [topic = ""]: readonly string[],
    request: TransportRequest,
    sending: Sending,
  ): Promise<Reply> {
    // Refused at once, so that no batch waits for its deadline while it is known that there is no broker.
    if (!this.up) return unavailable(this.name);
    const place = await this.#batches.add(messageOf(topic, this.#key, request), () => sending.ended);
    const where = place && `, partition ${place.partition}, offset ${place.offset}`;
    return confirmed(`topic ${topic}${where ?? ": acknowledged by all replicas in sync"}`);
  }

  protected failed(error: unknown): Reply {
    if (error instanceof Error) {
      // The client itself finds that there is no such topic.
      if ((error as { readonly code?: string }).code === "PLT_KFK_USER") return refusedBy(error.message);
      for (const [apiId, words] of Object.entries(REFUSALS))
        if (this.#answers(error, apiId)) return refused(`${words} (${apiId})`);
      const why = TOPIC_IS_AWAY.find((apiId) => this.#answers(error, apiId));
      if (why !== undefined) return this.takesNothing(`takes nothing for a topic (${why})`, error);
    }
    return this.notFound(error);
  }

  protected override async close(): Promise<void> {
    await super.close();
    await this.#producer.close(true).catch(() => undefined);
  }

  #answers(error: Error, apiId: string): boolean {
    return this.#findErrorBy(error, "apiId", apiId) !== null;
  }
}

function messageOf(topic: string, path: string, request: TransportRequest): OutgoingMessage {
  const { body, headers, messageId } = request;
  const value = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const given = new Map(Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)]));
  given.set(Buffer.from("messageId"), Buffer.from(messageId));
  return { topic, key: Buffer.from(keyOf(path, request)), value, headers: given };
}
