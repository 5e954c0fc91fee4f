/** The topics that a session reads: they stay the same ones, get more partitions, and hold messages that wait. */
import type { BytesConsumer } from "./claim.ts";

/** Asks Kafka for the first offset of a partition. */
const EARLIEST = -2n;

type Metadata = Awaited<ReturnType<BytesConsumer["metadata"]>>;

/** Reads what the topics are now. */
export async function topicsRead(consumer: BytesConsumer, names: readonly string[], from: "earliest" | "latest") {
  const topics = [...names];
  const first = await consumer.metadata({ topics });
  const ids = idsOf(first);
  let known = [...first.topics.values()].reduce((sum, { partitionsCount }) => sum + partitionsCount, 0);
  return {
    idOf: (topic: string): string => ids.get(topic) ?? "",
    /** @throws Error when a topic was deleted and made again since the session began */
    async unlessMadeAgain(): Promise<void> {
      // Asked again each time: what the client still knows may be of the topic that was deleted.
      for (const [topic, id] of idsOf(await consumer.metadata({ topics, forceUpdate: true })))
        if (ids.get(topic) !== id) throw new Error(`the topic ${topic} was made again`);
    },
    /**
     * Counts the messages behind what is committed, in all partitions, whoever reads them.
     * @returns also whether there are other partitions than at the last time
     */
    async backlog(): Promise<{ readonly waiting: number; readonly isWider: boolean }> {
      const ends = await consumer.listOffsets({ topics });
      const starts = from === "latest" ? ends : await consumer.listOffsets({ topics, timestamp: EARLIEST });
      const asked = [...ends].map(([topic, all]) => ({ topic, partitions: [...all.keys()] }));
      const committed = await consumer.listCommittedOffsets({ topics: asked });
      let [waiting, partitions] = [0, 0];
      for (const [topic, all] of ends)
        for (const [i, end] of all.entries()) {
          const offset = committed.get(topic)?.[i] ?? -1n;
          waiting += Math.max(0, Number(end - (offset < 0n ? (starts.get(topic)?.[i] ?? end) : offset)));
          partitions++;
        }
      const isWider = partitions !== known;
      known = partitions;
      return { waiting, isWider };
    },
  };
}

/** Kafka's id of each topic, shortened; empty where the brokers are older than such ids (2.8). */
const idsOf = ({ topics }: Metadata): ReadonlyMap<string, string> =>
  new Map([...topics].map(([name, { id }]) => [name, id.replaceAll(/[^0-9a-zA-Z]|^[0-]*$/g, "").slice(0, 8)]));
