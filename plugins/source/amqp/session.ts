/** Sessions with RabbitMQ: each opens a connection, takes messages until it is lost or the source stops, and closes it. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { ChannelModel, connect as Connect } from "amqplib";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import { onAmqp } from "../../brokers/amqp.ts";
import { byConnection, connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake, type Upstream } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { deadLetterExchangeOf, readAmqp, Settlement, type AmqpMessage } from "./messages.ts";

export interface FromAmqpOptions extends MessageOptions {
  /** `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS. */
  readonly url: SecretOption;
  /** The queue. It must exist: the relay declares nothing. */
  readonly queue: string;
  /** Most messages that RabbitMQ sends ahead of their acknowledgement. @default 2_000 */
  readonly prefetch?: number;
  /**
   * Takes messages without a valid event, with the reason in the headers. Without it they are rejected: RabbitMQ passes
   * them to the dead-letter exchange of the queue, or drops them.
   */
  readonly deadLetterExchange?: string;
  /** @default the name of the queue */
  readonly deadLetterRoutingKey?: string;
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. */
  readonly tls?: TlsOptions;
}

const CLOSE_MS = 2_000;

/** @param url where RabbitMQ is: the option, read and checked */
export function startAmqp(
  ctx: PluginContext,
  options: FromAmqpOptions & Reading,
  connect: typeof Connect,
  url: string,
): Source {
  const { clock } = ctx;
  const { queue, source, prefetch = 2_000, deadLetterExchange } = options;
  const broker = { connect, url, tls: options.tls, name: `relaybox ${source}`, clock };
  // The client cannot write the headers, and never will.
  const dead = new DeadLetters(ctx, source, (error) => error instanceof RangeError || error instanceof TypeError);
  const intake = new Intake<AmqpMessage>(ctx, { reading: options, maxInFlight: prefetch, upstream: upstreamOn(dead) });

  async function consume(connection: ChannelModel, lost: PromiseWithResolvers<never>, life: SessionLife) {
    const fail = (error: Error): void => lost.reject(error);
    const channel = await connection.createChannel();
    channel.on("error", fail);
    channel.on("close", () => fail(new Error("RabbitMQ has closed the channel")));
    await channel.prefetch(prefetch);
    await channel.checkQueue(queue);
    const from = {
      settlement: new Settlement(channel),
      publish: deadLetterExchange
        ? await deadLetterExchangeOf(connection, deadLetterExchange, options, fail)
        : undefined,
      ending: life.ending,
    };
    const { consumerTag } = await channel.consume(queue, (message) => {
      if (message === null) return fail(new Error(`the queue ${queue} is gone`));
      from.settlement.hold(message);
      intake.offer([readAmqp(message, queue, from)]);
    });
    life.connected();
    const watching = watchBacklog(clock, intake, life.ending, async () => ({
      count: (await channel.checkQueue(queue)).messageCount,
    }));
    await unlessAborted(life.stopping, lost.promise);
    await watching;
    await endsWithin(clock, CLOSE_MS, channel.cancel(consumerTag));
    await life.settled;
    // The frames of a connection overtake those of its channels: only a channel that is closed has sent what it was given.
    await endsWithin(clock, CLOSE_MS, channel.close());
  }

  const session = (life: SessionLife): Promise<void> =>
    onAmqp(broker, life.stopping, (connection, lost) => consume(connection, lost, life));
  return connectedSource(intake, clock, session, dead);
}

const upstreamOn = (dead: DeadLetters): Upstream<AmqpMessage> => ({
  stored: (messages) =>
    byConnection(
      messages,
      ({ from }) => from.settlement,
      (settlement, own) => settlement.acknowledge(own.map(({ original }) => original)),
    ),
  async setAside(message, poison) {
    const { original, from } = message;
    const { settlement, publish, ending } = from;
    if (publish === undefined) return settlement.refuse(original, false);
    await dead.pass(message, poison, () => publish(original, poison), ending);
    settlement.acknowledge([original]);
  },
  giveBack: (messages) =>
    byConnection(
      messages,
      ({ from }) => from.settlement,
      (settlement, own) => own.forEach(({ original }) => settlement.refuse(original, true)),
    ),
});
