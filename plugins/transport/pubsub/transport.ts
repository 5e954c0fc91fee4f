/** The transport behind `toPubSub()`, loaded only where a config names it. */
import { hash } from "node:crypto";
import type { PubSub } from "@google-cloud/pubsub";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import {
  callPubSub,
  GRPC,
  grpcCode,
  ONCE,
  pubSubClient,
  pubSubFault,
  withWords,
  type PubSubLibrary,
  type PubSubOptions,
} from "../../brokers/pubsub.ts";
import { AskedBus } from "../buses/bus.ts";
import { GroupedBy } from "../buses/grouped.ts";
import { keyOf } from "../buses/ordering-key.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";

export interface ToPubSubOptions extends PubSubOptions {
  /** Name of the connection in URLs: `pubsub://<name>/deposits`. */
  readonly name: string;
  /**
   * Chooses the ordering key: `keyId`, or a path of the event such as `data.customer.id`. An event without such a value has
   * its `keyId`. Left out: messages have no ordering key.
   */
  readonly key?: string;
}

/** The name of a topic of the relay's own project. */
const TOPIC = /^((?!goog)[A-Za-z][A-Za-z0-9._~+-]{2,254})$/;
const RULE = "the name of a topic: 3 to 255 letters, digits, - _ . ~ and +, the first a letter, and not goog";

/** Pub/Sub takes in one call 1,000 messages, and 10 MB of all together. */
const MOST = 1_000;
const MOST_BYTES = 7 * 1024 * 1024;
/** Most bytes of an ordering key. */
const LONGEST_KEY = 1_024;

interface Outgoing {
  readonly topic: string;
  readonly message: {
    readonly data: Buffer;
    readonly attributes: Record<string, string>;
    readonly orderingKey?: string;
  };
}

const bytesOf = ({ message: { data, attributes } }: Outgoing): number =>
  Object.entries(attributes).reduce((sum, [name, value]) => sum + name.length + value.length, data.length + 64);

export class PubSubBus extends AskedBus {
  readonly #make: () => PubSub;
  #client: PubSub;
  readonly #key: string | undefined;
  readonly #groups: GroupedBy<Outgoing, string>;

  constructor(options: ToPubSubOptions, context: PluginContext, library: PubSubLibrary) {
    const { name, key } = options;
    super({ scheme: "pubsub", name, system: "Pub/Sub", takes: "messages", pattern: TOPIC, rule: RULE }, context);
    this.#key = key;
    this.#make = () => pubSubClient(context, `pubsub:${name}`, options, library);
    this.#client = this.#make();
    this.#groups = new GroupedBy(
      // A call has messages of one ordering key.
      ({ topic, message }) => `${topic} ${message.orderingKey ?? ""}`,
      () => ({
        mostBytes: MOST_BYTES,
        mostItems: MOST,
        bytesOf,
        work: (all) => this.#publishAll(all),
        splits: (error) => grpcCode(error) === GRPC.invalid,
      }),
    );
  }

  /** Asks for a topic that need not exist: "not found" and "denied" prove the credentials, too. */
  protected async ask(): Promise<void> {
    if (!this.#client.isOpen) this.#client = this.#make();
    const client = this.#client;
    try {
      await callPubSub(client, "PublisherClient", "getTopic", { topic: client.topic("relay").name });
    } catch (error) {
      if (pubSubFault(error) !== "service") return;
      // A client that found no credentials does not look again.
      await client.close().catch(() => undefined);
      throw withWords(error);
    }
  }

  protected async publish(
    [topic = ""]: readonly string[],
    request: TransportRequest,
    sending: Sending,
  ): Promise<Reply> {
    if (!this.up) return unavailable(this.name);
    const { body, headers, messageId } = request;
    const message = {
      data: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      attributes: { ...headers, messageId },
      ...(this.#key !== undefined && { orderingKey: shortened(keyOf(this.#key, request)) }),
    };
    const id = await this.#groups.add({ topic, message }, () => sending.ended);
    return confirmed(`topic ${topic}, message ${id}`);
  }

  /** Publishes in one call. A topic of its own each time: after a failure one takes no more of an ordering key. */
  async #publishAll(all: readonly Outgoing[]): Promise<readonly string[]> {
    const batching = { maxMessages: all.length, maxBytes: 2 * MOST_BYTES, maxMilliseconds: 0 };
    const messageOrdering = this.#key !== undefined;
    const topic = this.#client.topic(all[0]?.topic ?? "", { batching, messageOrdering, gaxOpts: ONCE });
    return Promise.all(all.map(({ message }) => topic.publishMessage(message)));
  }

  protected failed(error: unknown, [topic = ""]: readonly string[]): Reply {
    const of = pubSubFault(error);
    const { message } = withWords(error);
    if (of === "service") return this.notFound(withWords(error));
    if (of === "now") return this.takesNothing(`takes nothing now (${message.split(":")[0]})`, error);
    if (grpcCode(error) === GRPC.missing) return refused(`the topic ${topic} is not there`);
    if (grpcCode(error) === GRPC.denied) return refused(`the relay may not publish to the topic ${topic}`);
    return refusedBy(message);
  }

  protected override async close(): Promise<void> {
    await super.close();
    await this.#client.close().catch(() => undefined);
  }
}

const shortened = (key: string): string => (Buffer.byteLength(key) > LONGEST_KEY ? hash("sha256", key, "hex") : key);
