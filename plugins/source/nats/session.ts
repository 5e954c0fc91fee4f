/** Sessions with NATS: each opens a connection, takes messages until it is lost or the source stops, and closes it. */
import type { Consumer, ConsumerInfo, JetStreamManager, StreamInfo } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import type { TlsFiles } from "../../../core/ports/tls-files.ts";
import { unlessAborted } from "../../../core/lib/within.ts";
import { natsOptions, onNats, type NatsLibrary } from "../../brokers/nats.ts";
import { connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake, type Upstream } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { readNats, settlementOn, type NatsMessage, type Settlement } from "./settlement.ts";

export interface FromNatsOptions extends MessageOptions {
  /** `nats://host:4222`, or several of one cluster, without credentials. */
  readonly servers: string | readonly string[];
  readonly stream: string;
  /** A durable pull consumer with explicit acknowledgements. It must exist. */
  readonly consumer: string;
  /** Most messages that are fetched and not acknowledged. @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * Takes messages without a valid event, with the reason in the headers; a stream must take it. Without it they are
   * only terminated: the stream keeps them as long as its limits say.
   */
  readonly deadLetterSubject?: string;
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  /** The text of a `.creds` file. */
  readonly credentials?: SecretOption;
  /** Texts in PEM, or paths of files, relative to the config. `{}`: the system's authorities. */
  readonly tls?: TlsFiles & {
    readonly ca?: string;
    readonly cert?: string;
    readonly key?: string;
    /** TLS before the server's greeting. */
    readonly handshakeFirst?: boolean;
  };
}

/** Two answers missed, and the connection is lost: a server that hangs is noticed within half a minute. */
const PING_MS = 10_000;
/** A fetch ends after this long, also where not as many messages came as it asked for. */
const FETCH_MS = 30_000;

export function startNats(ctx: PluginContext, options: FromNatsOptions & Reading, library: NatsLibrary): Source {
  const { clock } = ctx;
  const { stream, consumer, source, maxInFlight = 1_000, deadLetterSubject } = options;
  const connecting = {
    ...natsOptions(ctx, options, library, source),
    name: `relaybox ${source}`,
    // The source connects again by itself, and says in /readyz why it cannot.
    reconnect: false,
    pingInterval: PING_MS,
  };
  const dead = new DeadLetters(ctx, source, (error) => {
    const { cause = error } = error as Error;
    // It is larger by the reason, and perhaps larger than the server takes.
    return cause instanceof library.errors.InvalidArgumentError;
  });
  const intake = new Intake<NatsMessage>(ctx, { reading: options, maxInFlight, upstream: UPSTREAM });

  async function consume(connection: NatsConnection, { stopping, settled, over, ending, connected }: SessionLife) {
    const manager = await library.jetstreamManager(connection);
    const pulling = await library.jetstream(connection).consumers.get(stream, consumer);
    const info = await pulling.info(true);
    refuseUnfit(info);
    const settlement = settlementOn(connection, library, deadLetterSubject, (message, poison, publish) =>
      dead.pass(message, poison, publish, ending),
    );
    connected();
    const watching = watchBacklog(clock, intake, ending, async () => ({
      count: (await pulling.info()).num_pending,
    }));
    void settlement.extendLeases(clock, over, (info.config.ack_wait ?? 30e9) / 1e6);
    await unlessAborted(stopping, take(pulling, manager, settlement, stopping));
    await watching;
    await settled;
  }

  /** Fetches no more than there is room for: nobody extends the lease of a message that waits inside the client. */
  async function take(pulling: Consumer, manager: JetStreamManager, settlement: Settlement, stopping: AbortSignal) {
    for (let room = await intake.room(); room > 0; room = await intake.room()) {
      const messages = await pulling.fetch({ max_messages: room, expires: FETCH_MS });
      const stop = (): void => messages.stop();
      if (stopping.aborted) stop();
      stopping.addEventListener("abort", stop, { once: true });
      // All messages of a fetch are of one stream: the server ends it when the stream is deleted.
      let from: string | undefined;
      for await (const message of messages) {
        from ??= nameOf(await manager.streams.info(stream));
        settlement.hold(message);
        intake.offer([readNats(message, from, settlement)]);
      }
      stopping.removeEventListener("abort", stop);
    }
  }

  const session = (life: SessionLife): Promise<void> =>
    onNats(library.connect(connecting), clock, life.stopping, (connection) => consume(connection, life));
  return connectedSource(intake, clock, session, dead);
}

const UPSTREAM: Upstream<NatsMessage> = {
  stored: (messages) => messages.forEach(({ settlement, original }) => settlement.settle(original, "ack")),
  setAside: (message, poison) => message.settlement.setAside(message, poison),
  giveBack: (messages) => messages.forEach(({ settlement, original }) => settlement.settle(original, "nak")),
};

/** Returns a name that a stream made again under the same one does not have. */
const nameOf = ({ config, created }: StreamInfo): string => `${config.name}-${Date.parse(created).toString(36)}`;

/** @throws Error for a consumer whose acknowledgements would lose messages */
function refuseUnfit({ name, config }: ConsumerInfo): void {
  // With `all`, the acknowledgement of one message takes along those before it that are not stored yet.
  if (config.ack_policy !== "explicit") throw new Error(`the consumer ${name} needs the ack policy "explicit"`);
  if (config.deliver_subject !== undefined) throw new Error(`the consumer ${name} is a push consumer: it must be pull`);
}
