/** Sessions with RabbitMQ: each opens a connection, takes messages until it is lost or the source stops, and closes it. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { Channel, ChannelModel, connect as Connect, ConsumeMessage } from "amqplib";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { unlessAborted } from "../../../core/lib/within.ts";
import {
  connectedSource,
  watchBacklog,
  endsWithin,
  settleEach,
  type SessionSurroundings,
} from "../messages/connected.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf, type MessageOptions, type Poison, type Settled } from "../messages/message.ts";
import { setAsideStore } from "../messages/set-aside.ts";
import { createStuck } from "../messages/stuck.ts";
import { createAcknowledger } from "./acknowledge.ts";
import { deadLetters, type DeadLetter } from "./dead-letters.ts";
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

const CONNECT_MS = 10_000;
const CLOSE_MS = 2_000;
/** Two missed ones, and the connection is lost: a broker that hangs is noticed within half a minute. */
const HEARTBEAT_SECONDS = "15";

/** @param at where RabbitMQ is: the option, read and checked */
export function startAmqp(ctx: PluginContext, options: FromAmqpOptions, connect: typeof Connect, at: string): Source {
  const { clock, log } = ctx;
  const { queue, prefetch = 2_000, deadLetterExchange } = options;
  const reading = readingOf(options, "amqp");
  const { source } = reading;
  const url = new URL(at);
  if (!url.searchParams.has("heartbeat")) url.searchParams.set("heartbeat", HEARTBEAT_SECONDS);
  const intake = createIntake<AmqpMessage>(ctx, {
    reading,
    maxInFlight: prefetch,
    settle: settleEach(({ settlement }) => settlement, settleOn),
  });

  const stuck = createStuck(ctx, source);
  const kept = setAsideStore(ctx.storage, source);

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
    const opening = connect(url.href, {
      ...options.tls,
      timeout: CONNECT_MS,
      clientProperties: { connection_name: `relaybox ${source}` },
    });
    await unlessAborted(stopping, opening);
    if (stopping.aborted) {
      // A stop waits for no broker: a connection that opens afterwards is closed at once.
      void opening.then(hangUp, () => undefined);
      return;
    }
    const connection = await opening;
    const lost = Promise.withResolvers<never>();
    connection.on("error", lost.reject);
    connection.on("close", () => lost.reject(new Error("RabbitMQ has closed the connection")));
    try {
      await Promise.race([lost.promise, work(connection, lost)]);
    } finally {
      over.abort();
      await hangUp(connection);
    }

    async function work(connection: ChannelModel, lost: PromiseWithResolvers<never>): Promise<void> {
      const fail = (error: Error): void => lost.reject(error);
      const channel = await connection.createChannel();
      channel.on("error", fail);
      channel.on("close", () => fail(new Error("RabbitMQ has closed the channel")));
      await channel.prefetch(prefetch);
      await channel.checkQueue(queue);
      const settlement = await settlementOn(connection, channel, AbortSignal.any([over.signal, stopping]), fail);
      const { consumerTag } = await channel.consume(queue, (message) => {
        if (message === null) fail(new Error(`the queue ${queue} is gone`));
        else intake.offer([readAmqp(message, queue, settlement)]);
      });
      connected();
      const backlog = async () => (await channel.checkQueue(queue)).messageCount;
      const watching = watchBacklog(ctx, source, AbortSignal.any([over.signal, stopping]), backlog);
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
    const publisher = deadLetterExchange && (await deadLetters(connection, deadLetterExchange, options, fail));
    const refuse = (message: ConsumeMessage, again: boolean): void => {
      channel.nack(message, false, again);
      passOver(message);
    };
    return {
      acknowledge,
      giveBack: (message) => refuse(message, true),
      async deadLetter(message, poison) {
        const { original } = message;
        if (!publisher) return refuse(original, false);
        await stuck.insist(() => setAside(publisher, message, poison), ending);
        channel.ack(original);
        passOver(original);
      },
    };
  }

  async function setAside(publish: DeadLetter, message: AmqpMessage, poison: Poison): Promise<void> {
    try {
      await publish(message.original, poison);
    } catch (error) {
      if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
      log.warn("a dead letter cannot be written: the message is kept here", { source, error: String(error) });
      await kept.keep(message, poison, clock.now());
    }
  }

  /** Closes a connection, whatever state it is in. */
  async function hangUp(connection: ChannelModel): Promise<void> {
    await endsWithin(clock, CLOSE_MS, connection.close());
    // A broker that does not answer leaves the socket open, and with it the process.
    (connection.connection as { readonly stream?: { destroy(): void } }).stream?.destroy();
  }

  return connectedSource(intake, clock, session, stuck);
}
