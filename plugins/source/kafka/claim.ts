/** The messages that a relay got while it held its partitions: from one rebalance of the group to the next. */
import type { Consumer, MessagesStream } from "@platformatic/kafka";
import { createPartitionProgress } from "./progress.ts";

export interface Claim {
  readonly stream: MessagesStream<Buffer, Buffer, Buffer, Buffer>;
  /** Set when the group is dealt out again. From then on nothing is committed. */
  over: boolean;
  begin(topic: string, partition: number, offset: bigint): void;
  /** Notes that messages are done. Resolves when what they allow is committed, or when the claim is over. */
  end(
    messages: readonly { readonly topic: string; readonly partition: number; readonly offset: bigint }[],
  ): Promise<void>;
}

/** @param sameTopics rejects when a topic was made again: an offset of the first would pass over messages of the second */
export function createClaim(
  consumer: Pick<Consumer<Buffer, Buffer, Buffer, Buffer>, "commit">,
  stream: MessagesStream<Buffer, Buffer, Buffer, Buffer>,
  sameTopics: () => Promise<void>,
): Claim {
  const progress = createPartitionProgress();
  let committing: Promise<void> | undefined;

  /** One commit at a time, each with all that is done by then: a commit for each message would wait for each answer. */
  async function commit(): Promise<void> {
    try {
      // What is done in this turn goes into the same commit.
      await Promise.resolve();
      for (let taken = progress.take(); taken.length > 0 && !claim.over; taken = progress.take()) {
        await sameTopics();
        await consumer.commit({
          offsets: taken.map(([name, offset]) => {
            const [topic = "", partition] = name.split("/");
            return { topic, partition: Number(partition), offset, leaderEpoch: -1 };
          }),
        });
      }
    } catch (error) {
      // A refusal for a rebalance: the messages come again, to the member that has the partition then.
      if (!claim.over) throw error;
    } finally {
      committing = undefined;
    }
  }

  const claim: Claim = {
    stream,
    over: false,
    begin: (topic, partition, offset) => progress.begin(nameOf(topic, partition), offset),
    async end(messages) {
      for (const { topic, partition, offset } of messages) progress.end(nameOf(topic, partition), offset);
      await (committing ??= commit());
    },
  };
  return claim;
}

const nameOf = (topic: string, partition: number): string => `${topic}/${partition}`;
