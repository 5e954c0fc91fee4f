/** Sends messages to topics in batches. */
import { GroupedBy } from "../buses/grouped.ts";

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

/** A broker takes 1 MiB in a batch unless it is configured otherwise. A message alone may be larger. */
const BATCH_BYTES = 524_288;
const BATCH_COUNT = 1_000;
/** A batch takes no more than this beside the bytes of a message or a header. */
const FRAME_BYTES = 64;

/**
 * Resolves each to the place of the message when it is acknowledged.
 * @param splits true for an error that one message may have brought on all others of its batch
 */
export const topicBatches = (send: SendBatch, splits: (error: unknown) => boolean) =>
  new GroupedBy<OutgoingMessage, MessagePlace | undefined>(
    ({ topic }) => topic,
    () => ({
      mostBytes: BATCH_BYTES,
      mostItems: BATCH_COUNT,
      bytesOf,
      work: async (messages) => {
        const places = await send([...messages]);
        const first = places.length === 1 ? places[0] : undefined;
        return messages.map((_, i) => first && { partition: first.partition, offset: first.offset + BigInt(i) });
      },
      splits,
    }),
  );

function bytesOf({ key, value, headers }: OutgoingMessage): number {
  let bytes = FRAME_BYTES + key.length + value.length;
  for (const [name, text] of headers) bytes += FRAME_BYTES + name.length + text.length;
  return bytes;
}
