/** The messages that a relay got while it held its partitions, from one rebalance of the group to the next. */
import type { Consumer, Message, MessagesStream } from "@platformatic/kafka";
import type { RawMessage } from "../messages/message.ts";

export type BytesConsumer = Consumer<Buffer, Buffer, Buffer, Buffer>;
type BytesStream = MessagesStream<Buffer, Buffer, Buffer, Buffer>;
type Place = Pick<Message, "topic" | "partition" | "offset">;

/** How far a partition is done: an offset may be committed when all messages before it are. */
interface Progress {
  readonly topic: string;
  readonly partition: number;
  /** Offsets that were fetched and are not done, ascending. */
  readonly open: Set<bigint>;
  /** The offset behind the last one that was fetched. */
  end: bigint;
  committed: bigint;
}

export class Claim {
  readonly stream: BytesStream;
  /** Set when the group is dealt out again. From then on nothing is committed. */
  isOver = false;
  readonly #consumer: Pick<BytesConsumer, "commit">;
  readonly #sameTopics: () => Promise<void>;
  readonly #partitions = new Map<string, Progress>();
  #committing: Promise<void> | undefined;

  /** @param sameTopics rejects when a topic was made again: an offset of the first would pass over messages of the second */
  constructor(consumer: Pick<BytesConsumer, "commit">, stream: BytesStream, sameTopics: () => Promise<void>) {
    this.#consumer = consumer;
    this.stream = stream;
    this.#sameTopics = sameTopics;
  }

  /** Notes a message that was fetched. Of one partition they come in ascending order, and may have gaps. */
  begin({ topic, partition, offset }: Place): void {
    const key = `${topic}/${partition}`;
    const progress = this.#partitions.get(key) ?? { topic, partition, open: new Set(), end: offset, committed: offset };
    this.#partitions.set(key, progress);
    progress.open.add(offset);
    progress.end = offset + 1n;
  }

  /** Notes that messages are stored or set aside. Resolves when what they allow is committed, or when the claim is over. */
  async end(messages: readonly Place[]): Promise<void> {
    for (const { topic, partition, offset } of messages)
      this.#partitions.get(`${topic}/${partition}`)?.open.delete(offset);
    await (this.#committing ??= this.#commit());
  }

  /** One commit at a time, each with all that is done by then: a commit for each message would wait for each answer. */
  async #commit(): Promise<void> {
    try {
      // Messages that are done in this turn go into the same commit.
      await Promise.resolve();
      for (let offsets = this.#further(); offsets.length > 0 && !this.isOver; offsets = this.#further()) {
        await this.#sameTopics();
        await this.#consumer.commit({ offsets });
      }
    } catch (error) {
      // A refusal for a rebalance: the messages come again, to the member that has the partition then.
      if (!this.isOver) throw error;
    } finally {
      this.#committing = undefined;
    }
  }

  /** Returns the partitions that got further since the last call, each with the offset to go on from. */
  #further() {
    return [...this.#partitions.values()].flatMap((progress) => {
      const { topic, partition, open, end, committed } = progress;
      const [offset = end] = open;
      if (offset === committed) return [];
      progress.committed = offset;
      return [{ topic, partition, offset, leaderEpoch: -1 }];
    });
  }
}

export interface KafkaMessage extends RawMessage {
  readonly original: Message;
  /** It may be committed only as long as this holds. */
  readonly claim: Claim;
}

/**
 * @param topicId Kafka's own id of the topic: another topic of the same name counts from 0 again, and its messages must not
 * pass for those of the first
 */
export function readKafka(original: Message, topicId: string, claim: Claim): KafkaMessage {
  const { topic, partition, offset, key, value, headers, timestamp } = original;
  const texts: Record<string, string> = {};
  for (const [name, text] of headers) texts[name.toString("utf8").toLowerCase()] = text?.toString("utf8") ?? "";
  return {
    // A message without a value, which deletes a key in a compacted topic, is no event.
    payload: value ?? "",
    ...(texts["content-type"] !== undefined && { contentType: texts["content-type"] }),
    headers: texts,
    subject: topic,
    ...(key !== undefined && key !== null && { key: key.toString("utf8") }),
    at: Number(timestamp),
    place: `${topic}:${topicId}:${partition}:${offset}`,
    original,
    claim,
  };
}
