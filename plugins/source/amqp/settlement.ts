/** Settles the messages of one connection: one can be settled on the channel that it came by, and on no other. */
import type { Channel, ConsumeMessage } from "amqplib";

export class Settlement {
  readonly #channel: Pick<Channel, "ack" | "nack">;
  /** Tags that are not settled, ascending: a channel counts them up. No more than may be in flight. */
  readonly #open = new Set<number>();

  constructor(channel: Pick<Channel, "ack" | "nack">) {
    this.#channel = channel;
  }

  /** Notes a message that has come. */
  hold({ fields }: ConsumeMessage): void {
    this.#open.add(fields.deliveryTag);
  }

  /**
   * Acknowledges with few frames: one for all up to a tag, where none before it is open.
   * @param messages in the order of their delivery
   */
  acknowledge(messages: readonly ConsumeMessage[]): void {
    for (const { fields } of messages) this.#open.delete(fields.deliveryTag);
    const [open = Infinity] = this.#open;
    const last = messages.findLast(({ fields }) => fields.deliveryTag < open);
    if (last !== undefined) this.#channel.ack(last, true);
    for (const message of messages) if (message.fields.deliveryTag > open) this.#channel.ack(message);
  }

  /** @param again puts it back into its queue; else its queue passes it to its own dead letters, or drops it */
  refuse(message: ConsumeMessage, again: boolean): void {
    this.#channel.nack(message, false, again);
    this.#open.delete(message.fields.deliveryTag);
  }
}
