/** Sends messages to topics in batches: topics do not wait for each other. */
import { Grouped } from "../buses/grouped.ts";

export interface OutgoingMessage {
  readonly topic: string;
  readonly key: Buffer;
  readonly value: Buffer;
  readonly headers: Map<Buffer, Buffer>;
}

/** Where a message went: a partition and an offset, when the batch had one partition only. */
export interface MessagePlace {
  readonly partition: number;
  readonly offset: bigint;
}

/** The part of the client that batches need. Resolves when all replicas in sync have the messages. */
export type SendBatch = (messages: OutgoingMessage[]) => Promise<readonly MessagePlace[]>;

type Batch = Grouped<OutgoingMessage, MessagePlace | undefined>;

/** A broker takes 1 MiB in a batch unless it is configured otherwise. A message alone may be larger. */
const BATCH_BYTES = 524_288;
const BATCH_COUNT = 1_000;
/** A batch takes no more than this beside the bytes of a message or a header. */
const FRAME_BYTES = 64;

export class Batches {
  readonly #send: SendBatch;
  readonly #splits: (error: unknown) => boolean;
  /** By topic, while a batch of it is under way. */
  readonly #topics = new Map<string, Batch>();

  /** @param splits true for an error that one message may have brought on all others of its batch */
  constructor(send: SendBatch, splits: (error: unknown) => boolean) {
    this.#send = send;
    this.#splits = splits;
  }

  /**
   * Resolves when the message is acknowledged.
   * @param dropped asked right before it is sent: true leaves it out
   * @throws what the client threw for the message alone, or for a batch that is not split; it may be there all the same
   */
  add(message: OutgoingMessage, dropped: () => boolean): Promise<MessagePlace | undefined> {
    const { topic } = message;
    const batch = this.#topics.get(topic) ?? this.#made(topic);
    this.#topics.set(topic, batch);
    return batch.add(message, dropped);
  }

  #made(topic: string): Batch {
    return new Grouped({
      mostBytes: BATCH_BYTES,
      mostItems: BATCH_COUNT,
      bytesOf,
      work: async (messages) => {
        const places = await this.#send([...messages]);
        const first = places.length === 1 ? places[0] : undefined;
        return messages.map((_, i) => first && { partition: first.partition, offset: first.offset + BigInt(i) });
      },
      splits: this.#splits,
      idle: () => void this.#topics.delete(topic),
    });
  }
}

function bytesOf({ key, value, headers }: OutgoingMessage): number {
  let bytes = FRAME_BYTES + key.length + value.length;
  for (const [name, text] of headers) bytes += FRAME_BYTES + name.length + text.length;
  return bytes;
}
