/** Sessions with RabbitMQ: each opens a connection, takes messages until it is lost or the source stops, and closes it. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { Channel, ChannelModel, connect as Connect, ConsumeMessage } from "amqplib";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import { onAmqp } from "../../brokers/amqp.ts";
import { connectedSource, settleEach, watchBacklog, type SessionSurroundings } from "../messages/connected.ts";
import { createDeadLetters } from "../messages/dead-letters.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf, type MessageOptions, type Settled } from "../messages/message.ts";
import { createAcknowledger } from "./acknowledge.ts";
import { deadLetterExchangeOf } from "./dead-letters.ts";
import { readAmqp, type AmqpMessage, type Settlement } from "./message.ts";

export interface FromAmqpOptions extends MessageOptions {
  /** `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS. It may be `secretFrom({ env: "AMQP_URL" })`. */
  readonly url: SecretOption;
  /** The queue. It must exist: the relay declares nothing. */
  readonly queue: string;
  /** Most messages that RabbitMQ sends ahead of their acknowledgement. @default 2_000 */
  readonly prefetch?: number;
  /**
   * The exchange that a message without a valid event is published to, with the reason in its headers, before it is
   * acknowledged. Without it the message is rejected: RabbitMQ passes it to the dead-letter exchange of the queue, and
   * drops it where the queue has none.
   */
  readonly deadLetterExchange?: string;
  /** @default the name of the queue */
  readonly deadLetterRoutingKey?: string;
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. */
  readonly tls?: TlsOptions;
}

const CLOSE_MS = 2_000;

/** @param url where RabbitMQ is: the option, read and checked */
export function startAmqp(ctx: PluginContext, options: FromAmqpOptions, connect: typeof Connect, url: string): Source {
  const { clock } = ctx;
  const { queue, prefetch = 2_000, deadLetterExchange } = options;
  const reading = readingOf(options, "amqp");
  const { source } = reading;
  const broker = { connect, url, tls: options.tls, name: `relaybox ${source}`, clock };
  const intake = createIntake<AmqpMessage>(ctx, {
    reading,
    maxInFlight: prefetch,
    settle: settleEach(({ settlement }) => settlement, settleOn),
  });

  // The client cannot write the headers, and never will.
  const dead = createDeadLetters(ctx, source, (error) => error instanceof RangeError || error instanceof TypeError);

  async function settleOn(settlement: Settlement, settled: readonly Settled<AmqpMessage>[]): Promise<void> {
    const stored: ConsumeMessage[] = [];
    const setAside: Promise<void>[] = [];
    for (const { message, fate } of settled) {
      const { original } = message;
      if (fate.kind === "stored") stored.push(original);
      else if (fate.kind === "returned") settlement.giveBack(original);
      else setAside.push(settlement.deadLetter(message, fate));
    }
    settlement.acknowledge(stored);
    await Promise.all(setAside);
  }

  async function session({ stopping, settled, connected }: SessionSurroundings): Promise<void> {
    const over = new AbortController();
    const ending = AbortSignal.any([over.signal, stopping]);
    try {
      await onAmqp(broker, stopping, work);
    } finally {
      over.abort();
    }

    async function work(connection: ChannelModel, lost: PromiseWithResolvers<never>): Promise<void> {
      const fail = (error: Error): void => lost.reject(error);
      const channel = await connection.createChannel();
      channel.on("error", fail);
      channel.on("close", () => fail(new Error("RabbitMQ has closed the channel")));
      await channel.prefetch(prefetch);
      await channel.checkQueue(queue);
      const settlement = await settlementOn(connection, channel, ending, fail);
      const { consumerTag } = await channel.consume(queue, (message) => {
        if (message === null) fail(new Error(`the queue ${queue} is gone`));
        else intake.offer([readAmqp(message, queue, settlement)]);
      });
      connected();
      const watching = watchBacklog(ctx, source, ending, async () => (await channel.checkQueue(queue)).messageCount);
      await unlessAborted(stopping, lost.promise);
      await watching;
      await endsWithin(clock, CLOSE_MS, channel.cancel(consumerTag));
      await settled;
      // The frames of a connection overtake those of its channels: only a channel that is closed has sent what it was given.
      await endsWithin(clock, CLOSE_MS, channel.close());
    }
  }

  async function settlementOn(
    connection: ChannelModel,
    channel: Channel,
    ending: AbortSignal,
    fail: (error: Error) => void,
  ): Promise<Settlement> {
    const { acknowledge, passOver } = createAcknowledger(channel);
    const publish = deadLetterExchange && (await deadLetterExchangeOf(connection, deadLetterExchange, options, fail));
    const refuse = (message: ConsumeMessage, again: boolean): void => {
      channel.nack(message, false, again);
      passOver(message);
    };
    return {
      acknowledge,
      giveBack: (message) => refuse(message, true),
      async deadLetter(message, poison) {
        const { original } = message;
        if (!publish) return refuse(original, false);
        await dead.pass(message, poison, () => publish(original, poison), ending);
        channel.ack(original);
        passOver(original);
      },
    };
  }

  return connectedSource(intake, clock, session, dead);
}
