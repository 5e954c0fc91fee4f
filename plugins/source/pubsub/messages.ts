/** The messages of a subscription: how they are read, and settled. */
import type { Message } from "@google-cloud/pubsub";
import { setNewest } from "../../../core/lib/bounded-map.ts";
import { Waiters } from "../../../core/lib/waiters.ts";
import type { SessionLife } from "../messages/connected.ts";
import type { DeadLetters } from "../messages/dead-letters.ts";
import type { Upstream } from "../messages/intake.ts";
import type { RawMessage } from "../messages/message.ts";

export interface PubSubMessage extends RawMessage {
  readonly message: Message;
  /** That it came by. Once it is over, the message can be settled no more, and comes again. */
  readonly life: Pick<SessionLife, "over" | "ending">;
}

const MOST_LEAVING = 10_000;

/** @param subject the name of the subscription: a message does not say its topic */
export function readPubSub(message: Message, subject: string, life: PubSubMessage["life"]): PubSubMessage {
  const { id, data, attributes, orderingKey, publishTime, deliveryAttempt } = message;
  const headers = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.toLowerCase(), value]));
  const contentType = headers["content-type"];
  return {
    payload: data,
    ...(contentType !== undefined && { contentType }),
    headers,
    subject,
    ...(orderingKey !== undefined && orderingKey !== "" && { key: orderingKey }),
    at: publishTime.getTime(),
    // The id is the same at each redelivery, and no other message of the topic has it.
    place: `${subject}-${id}`,
    redelivered: deliveryAttempt > 1,
    message,
    life,
  };
}

/** @param hasDeadLetters resolves to whether the subscription has a dead-letter topic */
export function pubSubSettlement(dead: DeadLetters, hasDeadLetters: () => Promise<boolean>) {
  const held = new Set<PubSubMessage>();
  /** Places of messages that are on their way to the dead-letter topic: each comes a few times more, and is not read again. */
  const leaving = new Map<string, true>();
  const emptied = new Waiters();

  async function settle(messages: readonly PubSubMessage[], tell: (one: PubSubMessage) => Promise<unknown>) {
    try {
      await Promise.all(messages.map(async (one) => (one.life.over.aborted ? undefined : tell(one))));
    } finally {
      for (const one of messages) held.delete(one);
      if (held.size === 0) emptied.wake();
    }
  }

  const upstream: Upstream<PubSubMessage> = {
    stored: (messages) => settle(messages, ({ message }) => message.ackWithResponse()),
    /**
     * Lets it come again at once, until Pub/Sub forwards it to the subscription's dead-letter topic: only where there is one it
     * counts attempts. Without one the relay keeps hold of it: what it acknowledges would be lost.
     */
    async setAside(one, poison) {
      const { message, subject, place, life } = one;
      await settle([one], () =>
        dead.pass(
          one,
          poison,
          async () => {
            if (message.deliveryAttempt === 0 && !(await hasDeadLetters()))
              throw new Error(`the subscription ${subject} has no dead-letter topic`);
            setNewest(leaving, place, true, MOST_LEAVING);
            await message.nackWithResponse();
          },
          life.ending,
        ),
      );
      return false;
    },
    // The end of the session gives back what is left, once: what is given back before comes at once again.
  };

  return {
    upstream,
    /** Notes that a message is in flight. Returns whether it is to be read: one that is not, is sent on its way again. */
    hold(one: PubSubMessage): boolean {
      if (leaving.has(one.place)) one.message.nack();
      else held.add(one);
      return held.has(one);
    },
    /** Resolves when nothing is held, or when the signal aborts. */
    async emptied(signal: AbortSignal): Promise<void> {
      while (held.size > 0 && !signal.aborted) await emptied.wait(signal);
    },
  };
}
