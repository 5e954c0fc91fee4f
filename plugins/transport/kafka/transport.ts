/** The transport behind `toKafka()`, loaded only where a config names it. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls } from "../../../core/ports/tls-files.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { linkNews } from "../buses/link-news.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";
import { Batches, type OutgoingMessage } from "./batches.ts";

export interface ToKafkaOptions {
  /** Name of the connection in URLs: `kafka://<name>/deposits`. */
  readonly name: string;
  /** `host:9092` of some brokers. */
  readonly brokers: readonly string[];
  /**
   * What chooses the partition: `keyId`, or a path of the event such as `data.customer.id`. An event without such a
   * value is keyed by its `keyId`. @default "keyId"
   */
  readonly key?: string;
  readonly sasl?: {
    readonly mechanism: "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512";
    readonly username: string;
    readonly password: SecretOption;
  };
  /** TLS; `caFile` is the path of a PEM file, in place of the system's authorities. */
  readonly tls?: { readonly caFile?: string };
}

/** Topics that Kafka keeps for itself begin with `__`. */
const TOPIC = /^([A-Za-z0-9][A-Za-z0-9._-]{0,248})$/;
const RULE = "a topic: letters, digits and . _ -, such as deposits";

/** Wait for a connection and for an answer of a broker, ms. */
const ANSWER_MS = 5_000;
/** How often brokers that are away are asked, ms. */
const ASK_MS = 1_000;

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

export function openKafka(
  options: ToKafkaOptions,
  context: PluginContext,
  client: Pick<typeof import("@platformatic/kafka"), "Producer" | "findErrorBy">,
): Transport {
  const { clock, log } = context;
  const { Producer, findErrorBy } = client;
  const { name, brokers, key = "keyId" } = options;
  const sends = new Sends(clock);
  /** While the brokers are away, nothing is sent. */
  const fault = new BusFault(clock);
  const topicFault = new BusFault(clock);
  const news = linkNews(log, "Kafka", name);
  const destination = destinations(`kafka://${name}/`, TOPIC, RULE);
  const end = new AbortController();
  const producer = new Producer({
    clientId: "relay",
    bootstrapBrokers: [...brokers],
    acks: -1,
    idempotent: true,
    autocreateTopics: false,
    connectTimeout: ANSWER_MS,
    requestTimeout: ANSWER_MS,
    timeout: ANSWER_MS,
    // The client takes 0 and 1 of an idempotent producer for "without end".
    retries: 2,
    retryDelay: 100,
    ...securityOf(options, context),
  });
  const answers = (error: Error, apiId: string): boolean => findErrorBy(error, "apiId", apiId) !== null;
  const batches = new Batches(
    async (messages) => (await producer.send({ messages })).offsets ?? [],
    (error) => error instanceof Error && OF_ONE_MESSAGE.some((apiId) => answers(error, apiId)),
  );

  /** Asks until a broker answers. */
  let asking: Promise<void> | undefined;
  async function ask(): Promise<void> {
    while (!end.signal.aborted) {
      try {
        await producer.metadata({ topics: [], forceUpdate: true });
        news.there();
        fault.clear();
        break;
      } catch (error) {
        away(error);
      }
      await clock.sleep(clock.now() + ASK_MS, end.signal).catch(() => undefined);
    }
    // In the same step as the answer: who finds it away from then on asks again.
    asking = undefined;
  }
  function away(error: unknown): Reply {
    fault.note("is not connected");
    if (!end.signal.aborted) news.failed(String(error));
    asking ??= ask();
    return unavailable(name);
  }
  fault.note("is not connected");
  asking = ask();

  const failed = (error: unknown): Reply => {
    if (error instanceof Error) {
      // The client itself finds that there is no such topic.
      if ((error as { readonly code?: string }).code === "PLT_KFK_USER") return refusedBy(error.message);
      for (const [apiId, words] of Object.entries(REFUSALS)) {
        if (answers(error, apiId)) return refused(`${words} (${apiId})`);
      }
      const why = TOPIC_IS_AWAY.find((apiId) => answers(error, apiId));
      if (why !== undefined) {
        if (topicFault.note(`takes nothing for a topic (${why})`))
          log.warn("Kafka takes no messages", { transport: name, error: String(error) });
        return unavailable(name);
      }
    }
    return away(error);
  };

  return busTransport({
    scheme: "kafka",
    name,
    destination,
    sends,
    readiness: () => fault.words() ?? topicFault.words(),
    async publish([topic = ""], request, sending) {
      // Refused at once, so that no batch waits for its deadline with brokers that are known to be away.
      if (fault.words() !== undefined) return unavailable(name);
      const place = await batches.add(messageOf(topic, key, request), () => sending.ended);
      topicFault.clear();
      const where = place && `, partition ${place.partition}, offset ${place.offset}`;
      return confirmed(`topic ${topic}${where ?? ": acknowledged by all replicas in sync"}`);
    },
    failed,
    async close() {
      end.abort();
      await producer.close(true).catch(() => undefined);
    },
  });
}

function messageOf(topic: string, path: string, request: TransportRequest): OutgoingMessage {
  const { body, headers, messageId } = request;
  const value = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const given = new Map(Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)]));
  given.set(Buffer.from("messageId"), Buffer.from(messageId));
  return { topic, key: Buffer.from(keyOf(path, request, value)), value, headers: given };
}

/** The value at the path as text; the key id where the event has none. */
function keyOf(path: string, { keyId }: TransportRequest, body: Buffer): string {
  if (path === "keyId") return keyId;
  let at: unknown;
  try {
    at = JSON.parse(body.toString("utf8"));
  } catch {
    return keyId;
  }
  for (const part of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, part)) return keyId;
    at = (at as Readonly<Record<string, unknown>>)[part];
  }
  if (at === null || at === undefined) return keyId;
  return typeof at === "string" ? at : JSON.stringify(at);
}

function securityOf({ name, sasl, tls }: ToKafkaOptions, { secret, configDir }: PluginContext) {
  const texts = readTls(`kafka:${name}`, tls, configDir);
  return {
    ...(sasl && {
      sasl: { mechanism: sasl.mechanism, username: sasl.username, password: secret("sasl.password") },
    }),
    ...(texts && { tls: texts }),
  };
}
