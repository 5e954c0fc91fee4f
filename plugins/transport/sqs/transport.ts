/** The transport behind `toSqs()`, loaded only where a config names it. */
import { hash } from "node:crypto";
import type { SendMessageBatchRequestEntry, SQSClient } from "@aws-sdk/client-sqs";
import { isUtf8 } from "node:buffer";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { awsClient, awsFault, isDenied, withCode, type AwsOptions } from "../../brokers/aws.ts";
import { AskedBus } from "../buses/bus.ts";
import { GroupedBy } from "../buses/grouped.ts";
import { keyOf } from "../buses/ordering-key.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";

export interface ToSqsOptions extends AwsOptions {
  /** Name of the connection in URLs: `sqs://<name>/deposits`. */
  readonly name: string;
  /**
   * Chooses the message group of a FIFO queue: `keyId`, or a path of the event such as `data.customer.id`. An event without
   * such a value is in the group of its `keyId`. @default "keyId"
   */
  readonly key?: string;
}

/** The name of a queue of the account whose credentials the relay has. */
const QUEUE = /^([A-Za-z0-9_-]{1,75}(?:\.fifo)?)$/;
const RULE = "the name of a queue: letters, digits, _ and -, and .fifo at the end of a FIFO queue's";

/** What SQS takes in one call: messages, and bytes of all together. */
const MOST = 10;
const MOST_BYTES = 262_144;
const NO_QUEUE = /^(?:AWS\.SimpleQueueService\.NonExistentQueue|QueueDoesNotExist)$/;

type Library = typeof import("@aws-sdk/client-sqs");

interface Outgoing {
  readonly queue: string;
  readonly entry: Omit<SendMessageBatchRequestEntry, "Id">;
}

/** What became of one message of a call. */
interface Outcome {
  readonly id?: string | undefined;
  readonly refusal?: { readonly Code?: string | undefined; readonly Message?: string | undefined } | undefined;
}

export class SqsBus extends AskedBus {
  readonly #library: Library;
  readonly #client: SQSClient;
  readonly #key: string;
  #start: string | undefined;
  readonly #groups: GroupedBy<Outgoing, Outcome>;

  constructor(options: ToSqsOptions, context: PluginContext, library: Library) {
    const { name, key = "keyId" } = options;
    super({ scheme: "sqs", name, system: "SQS", takes: "messages", pattern: QUEUE, rule: RULE }, context);
    this.#library = library;
    this.#key = key;
    // The relay tries again by itself.
    this.#client = new library.SQSClient({ ...awsClient(context, `sqs:${name}`, options), maxAttempts: 1 });
    this.#groups = new GroupedBy(
      ({ queue }) => queue,
      (queue) => ({
        mostBytes: MOST_BYTES,
        mostItems: MOST,
        bytesOf: ({ entry }) =>
          Buffer.byteLength(entry.MessageBody ?? "") +
          Object.values(entry.MessageAttributes ?? {}).reduce(
            (sum, { StringValue = "" }) => sum + StringValue.length + 64,
            0,
          ),
        work: (all) => this.#sendAll(queue, all),
      }),
    );
  }

  /** Asks for a queue that need not exist: "not found" and "denied" prove the credentials, too. */
  protected async ask(abortSignal: AbortSignal): Promise<void> {
    const command = new this.#library.GetQueueUrlCommand({ QueueName: "relay" });
    await this.#client.send(command, { abortSignal }).catch((error: unknown) => {
      if (!NO_QUEUE.test(awsFault(error).code) && !isDenied(error)) throw withCode(error);
    });
  }

  protected async publish(
    [queue = ""]: readonly string[],
    request: TransportRequest,
    sending: Sending,
  ): Promise<Reply> {
    if (!this.up) return unavailable(this.name);
    const outgoing = { queue, entry: entryOf(request, queue.endsWith(".fifo") ? this.#key : undefined) };
    const { id, refusal } = await this.#groups.add(outgoing, () => sending.ended);
    if (refusal === undefined) return confirmed(`queue ${queue}, message ${id}`);
    return refusedBy([refusal.Code, refusal.Message].filter((part) => part !== undefined).join(": "));
  }

  async #sendAll(queue: string, all: readonly Outgoing[]): Promise<readonly Outcome[]> {
    const { SendMessageBatchCommand } = this.#library;
    const Entries = all.map(({ entry }, i) => ({ ...entry, Id: String(i) }));
    const { Successful = [], Failed = [] } = await this.#client.send(
      new SendMessageBatchCommand({ QueueUrl: await this.#urlOf(queue), Entries }),
    );
    return all.map((_, i) => ({
      id: Successful.find(({ Id }) => Id === String(i))?.MessageId,
      refusal: Failed.find(({ Id }) => Id === String(i)),
    }));
  }

  /** All queues of an account in a region have URLs that begin alike. */
  async #urlOf(queue: string): Promise<string> {
    if (this.#start !== undefined) return this.#start + queue;
    const { QueueUrl = "" } = await this.#client.send(new this.#library.GetQueueUrlCommand({ QueueName: queue }));
    this.#start = QueueUrl.slice(0, -queue.length);
    return QueueUrl;
  }

  protected failed(error: unknown, [queue = ""]: readonly string[]): Reply {
    const { code, of } = awsFault(error);
    if (of === "service") return this.notFound(withCode(error));
    if (of === "now") return this.takesNothing(`takes nothing now (${code})`, error);
    if (NO_QUEUE.test(code)) return refused(`the queue ${queue} is not there`);
    if (isDenied(error)) return refused(`the relay may not send to the queue ${queue} (${code})`);
    return refusedBy(String((withCode(error) as Error).message));
  }

  protected override async close(): Promise<void> {
    await super.close();
    this.#client.destroy();
  }
}

/** Characters that no message may have. */
const NOT_TAKEN = /[^\t\n\r -\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;

/**
 * The headers stand in one attribute, as JSON: a message has ten at most, and their names have fewer characters. A body that is
 * no text stands in base64, and the attribute `encoding` says so.
 */
function entryOf(request: TransportRequest, key: string | undefined): Outgoing["entry"] {
  const { body, headers, messageId } = request;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const asText = isUtf8(bytes) ? bytes.toString("utf8") : undefined;
  const isText = asText !== undefined && asText !== "" && !NOT_TAKEN.test(asText);
  const text = (StringValue: string) => ({ DataType: "String", StringValue });
  const plain = /^[\w-]{1,128}$/.test(messageId) ? messageId : hash("sha256", messageId, "hex");
  return {
    MessageBody: isText ? asText : bytes.toString("base64"),
    MessageAttributes: {
      ...{ headers: text(JSON.stringify(headers)), messageId: text(messageId) },
      ...(!isText && { encoding: text("base64") }),
    },
    ...(key !== undefined && { MessageDeduplicationId: plain, MessageGroupId: groupOf(keyOf(key, request)) }),
  };
}

/** A group may have 128 characters, none of which is a space. */
const groupOf = (key: string): string => (/^[!-~]{1,128}$/.test(key) ? key : hash("sha256", key, "hex"));
