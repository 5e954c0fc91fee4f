/** The topics that a session reads: they stay the same ones, get more partitions, and hold messages that wait. */
import type { BytesConsumer } from "./claim.ts";

/** Asks Kafka for the first offset of a partition. */
const EARLIEST = -2n;

type Metadata = Awaited<ReturnType<BytesConsumer["metadata"]>>;

export class TopicsRead {
  readonly #consumer: BytesConsumer;
  readonly #topics: string[];
  readonly #from: "earliest" | "latest";
  readonly #ids: ReadonlyMap<string, string>;
  #partitions: number;

  static async now(consumer: BytesConsumer, topics: readonly string[], from: "earliest" | "latest") {
    const metadata = await consumer.metadata({ topics: [...topics] });
    return new TopicsRead(consumer, [...topics], from, metadata);
  }

  constructor(consumer: BytesConsumer, topics: string[], from: "earliest" | "latest", metadata: Metadata) {
    this.#consumer = consumer;
    this.#topics = topics;
    this.#from = from;
    this.#ids = idsOf(metadata);
    this.#partitions = [...metadata.topics.values()].reduce((sum, { partitionsCount }) => sum + partitionsCount, 0);
  }

  idOf(topic: string): string {
    return this.#ids.get(topic) ?? "";
  }

  /** @throws Error when a topic was deleted and made again since the session began */
  async unlessMadeAgain(): Promise<void> {
    // Asked anew each time: what the client still knows may be of the topic that was deleted.
    const metadata = await this.#consumer.metadata({ topics: this.#topics, forceUpdate: true });
    for (const [topic, id] of idsOf(metadata))
      if (this.#ids.get(topic) !== id) throw new Error(`the topic ${topic} was made again`);
  }

  /**
   * Counts the messages behind what is committed, in all partitions, whoever reads them.
   * @returns also whether there are other partitions than at the last time
   */
  async backlog(): Promise<{ readonly waiting: number; readonly isWider: boolean }> {
    const [consumer, topics] = [this.#consumer, this.#topics];
    const ends = await consumer.listOffsets({ topics });
    const starts = this.#from === "latest" ? ends : await consumer.listOffsets({ topics, timestamp: EARLIEST });
    const asked = [...ends].map(([topic, all]) => ({ topic, partitions: [...all.keys()] }));
    const committed = await consumer.listCommittedOffsets({ topics: asked });
    let [waiting, partitions] = [0, 0];
    for (const [topic, all] of ends)
      for (const [i, end] of all.entries()) {
        const offset = committed.get(topic)?.[i] ?? -1n;
        waiting += Math.max(0, Number(end - (offset < 0n ? (starts.get(topic)?.[i] ?? end) : offset)));
        partitions++;
      }
    const isWider = partitions !== this.#partitions;
    this.#partitions = partitions;
    return { waiting, isWider };
  }
}

/** Kafka's id of each topic, shortened; empty where the brokers are older than such ids (2.8). */
const idsOf = ({ topics }: Metadata): ReadonlyMap<string, string> =>
  new Map([...topics].map(([name, { id }]) => [name, id.replaceAll(/[^0-9a-zA-Z]|^[0-]*$/g, "").slice(0, 8)]));
