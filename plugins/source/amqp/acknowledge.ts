/** Acknowledges messages of one channel with few frames: one for all up to a tag, where none before it is open. */
import type { Channel, ConsumeMessage } from "amqplib";
import { createStretches } from "./stretches.ts";

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
