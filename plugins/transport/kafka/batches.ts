/** Sends messages to topics in batches: what comes while a batch of a topic is under way goes with the next one. */
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

interface Waiting {
  readonly message: OutgoingMessage;
  /** Asked right before it is sent: true leaves it out. */
  readonly dropped: () => boolean;
  readonly resolve: (place: MessagePlace | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** A broker takes 1 MiB in a batch unless it is configured otherwise. A message alone may be larger. */
const BATCH_BYTES = 524_288;
const BATCH_COUNT = 1_000;
/** What surrounds a message or a header in a batch takes no more than this, bytes. */
const FRAME_BYTES = 64;

export class Batches {
  readonly #send: SendBatch;
  readonly #splits: (error: unknown) => boolean;
  /** Waiting messages, by topic; a topic is here while a batch of it is under way. */
  readonly #topics = new Map<string, Waiting[]>();

  /** @param splits true for an error that one message may have brought on all others of its batch */
  constructor(send: SendBatch, splits: (error: unknown) => boolean) {
    this.#send = send;
    this.#splits = splits;
  }

  /**
   * Resolves when the message is acknowledged.
   * @throws what the client threw for the message alone, or for a batch that is not split; it may be there all the same
   */
  add(message: OutgoingMessage, dropped: () => boolean): Promise<MessagePlace | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<MessagePlace | undefined>();
    const one: Waiting = { message, dropped, resolve, reject };
    const waiting = this.#topics.get(message.topic);
    if (waiting === undefined) {
      const begun = [one];
      this.#topics.set(message.topic, begun);
      void this.#run(message.topic, begun);
    } else waiting.push(one);
    return promise;
  }

  /** Never rejects: the promise of each message settles with its own result. */
  async #run(topic: string, waiting: Waiting[]): Promise<void> {
    // Gathers what this turn of the event loop adds.
    await new Promise((turned) => setImmediate(turned));
    while (waiting.length > 0) {
      await this.#sendOne(take(waiting));
    }
    this.#topics.delete(topic);
  }

  /**
   * Sends a batch. One that is refused is sent in halves, one after the other so that each key keeps its order, until the
   * message that is refused stands alone: all others arrive.
   */
  async #sendOne(all: readonly Waiting[]): Promise<void> {
    const batch = all.filter(({ dropped }) => !dropped());
    if (batch.length === 0) return;
    try {
      const places = await this.#send(batch.map(({ message }) => message));
      const first = places.length === 1 ? places[0] : undefined;
      for (const [i, { resolve }] of batch.entries())
        resolve(first && { partition: first.partition, offset: first.offset + BigInt(i) });
    } catch (error) {
      if (batch.length === 1 || !this.#splits(error)) return batch.forEach(({ reject }) => reject(error));
      const half = Math.ceil(batch.length / 2);
      await this.#sendOne(batch.slice(0, half));
      await this.#sendOne(batch.slice(half));
    }
  }
}

function take(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  for (const { message } of waiting) {
    const more = bytesOf(message);
    if (count > 0 && (bytes + more > BATCH_BYTES || count === BATCH_COUNT)) break;
    bytes += more;
    count++;
  }
  return waiting.splice(0, count);
}

function bytesOf({ key, value, headers }: OutgoingMessage): number {
  let bytes = FRAME_BYTES + key.length + value.length;
  for (const [name, text] of headers) bytes += FRAME_BYTES + name.length + text.length;
  return bytes;
}
