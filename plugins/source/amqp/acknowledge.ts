/** Acknowledges messages of one channel with few frames: one for all up to a tag, where none before it is open. */
import type { Channel, ConsumeMessage } from "amqplib";

interface Acknowledger {
  /** @param messages in the order of their delivery */
  acknowledge(messages: readonly ConsumeMessage[]): void;
  /** Notes that a message was settled in another way. */
  passOver(message: ConsumeMessage): void;
}

export function createAcknowledger(channel: Pick<Channel, "ack">): Acknowledger {
  /** Every tag up to it is settled. Tags count from 1 on each channel. */
  let floor = 0;
  /** Settled tags above it: any number of them may pass one that stays open. */
  const above = createStretches();

  function advance(): void {
    floor = above.take(floor + 1) ?? floor;
  }

  return {
    acknowledge(messages) {
      let last: ConsumeMessage | undefined;
      for (const message of messages) {
        const { deliveryTag } = message.fields;
        if (deliveryTag === floor + 1) {
          last = message;
          floor = deliveryTag;
          advance();
        } else {
          channel.ack(message);
          above.add(deliveryTag);
        }
      }
      if (last !== undefined) channel.ack(last, true);
    },
    passOver(message) {
      above.add(message.fields.deliveryTag);
      advance();
    },
  };
}

/** A set of whole numbers, kept as stretches without a gap: as many as there are gaps, however long they are. */
interface Stretches {
  /** How many stretches there are. */
  readonly size: number;
  /** Adds a number that is not in the set. */
  add(one: number): void;
  /** Takes the stretch that begins with the number out of the set. Returns its last number; `undefined`: none begins there. */
  take(first: number): number | undefined;
}

export function createStretches(): Stretches {
  /** The last number of each stretch by its first, and the other way round. */
  const lasts = new Map<number, number>();
  const firsts = new Map<number, number>();

  function take(first: number): number | undefined {
    const last = lasts.get(first);
    if (last === undefined) return undefined;
    lasts.delete(first);
    firsts.delete(last);
    return last;
  }

  return {
    get size() {
      return lasts.size;
    },
    add(one) {
      const first = firsts.get(one - 1) ?? one;
      take(first);
      const last = take(one + 1) ?? one;
      lasts.set(first, last);
      firsts.set(last, first);
    },
    take,
  };
}
