/** Sessions with Pub/Sub: each opens a stream of the subscription's messages, until the service fails or the source stops. */
import type { PubSub, Subscription } from "@google-cloud/pubsub";
import { every } from "../../../core/lib/every.ts";
import { unlessAborted } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import {
  callPubSub,
  GRPC,
  grpcCode,
  pubSubClient,
  withWords,
  type PubSubLibrary,
  type PubSubOptions,
} from "../../brokers/pubsub.ts";
import { connectedSource, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { pubSubSettlement, readPubSub, type PubSubMessage } from "./messages.ts";

export interface FromPubSubOptions extends MessageOptions, PubSubOptions {
  /** The name of the subscription, or `projects/<project>/subscriptions/<name>`. It must exist: the relay makes none. */
  readonly subscription: string;
  /** Most messages that are received and not settled. @default 1_000 */
  readonly maxInFlight?: number;
}

/** Most bytes of messages that are received and not settled. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Acknowledgements of so long go in one call, ms. */
const TOGETHER_MS = 10;
const ACK_MS = 10_000;
/** Asks whether the service answers: so often, and when the client says that something failed. */
const ASK_MS = 15_000;
const CLOSE_SECONDS = 3;
/** Longer than Pub/Sub keeps a message: one that waits is never let go. */
const WAITS_HOURS = 24 * 365;

export function startPubSub(ctx: PluginContext, options: FromPubSubOptions & Reading, library: PubSubLibrary): Source {
  const { clock } = ctx;
  const { source, maxInFlight = 1_000 } = options;
  const subject = options.subscription.slice(options.subscription.lastIndexOf("/") + 1);
  const { Duration } = library;
  // Credentials that are no JSON end the start.
  let client = pubSubClient(ctx, source, options, library);
  const subscriptionOf = (of: PubSub): Subscription =>
    of.subscription(options.subscription, {
      // What the service sends at most, by stream: so there is one.
      flowControl: { maxMessages: maxInFlight, maxBytes: MOST_BYTES, allowExcessMessages: false },
      streamingOptions: { maxStreams: 1 },
      maxExtensionTime: Duration.from({ hours: WAITS_HOURS }),
      batching: { maxMilliseconds: TOGETHER_MS, callOptions: { timeout: ACK_MS } },
      closeOptions: { timeout: Duration.from({ seconds: CLOSE_SECONDS }) },
    });
  const dead = new DeadLetters(ctx, source);
  const settlement = pubSubSettlement(dead, async () => {
    const [{ deadLetterPolicy }] = await subscriptionOf(client).getMetadata();
    return (deadLetterPolicy?.deadLetterTopic ?? "") !== "";
  });
  const intake = new Intake<PubSubMessage>(ctx, { reading: options, maxInFlight, upstream: settlement.upstream });

  /** Extends a message that is none, which needs no right but that to read. @throws what the service says of the subscription */
  async function ask(name: string): Promise<void> {
    const call = { subscription: name, ackIds: ["relay"], ackDeadlineSeconds: 10 };
    await callPubSub(client, "SubscriberClient", "modifyAckDeadline", call).catch((error: unknown) => {
      if (![GRPC.invalid, GRPC.precondition].includes(grpcCode(error) ?? -1)) throw error;
    });
  }

  async function session(life: SessionLife): Promise<void> {
    const { stopping, settled, ending, connected } = life;
    if (!client.isOpen) client = pubSubClient(ctx, source, options, library);
    const subscription = subscriptionOf(client);
    const failed = Promise.withResolvers<void>();
    try {
      await unlessAborted(stopping, ask(subscription.name));
      if (stopping.aborted) return;
      connected();
      // What came by the last session comes by this one again: both at once would be more than may wait.
      await settlement.emptied(stopping);
      const look = (): Promise<void> => ask(subscription.name).catch(failed.reject);
      void every(clock, ASK_MS, look, ending);
      subscription
        // A stream that the service ends in order is opened again.
        .on("error", (error) => (grpcCode(error) === GRPC.ok ? failed.resolve() : failed.reject(error)))
        .on("debug", () => void look())
        .on("message", (message) => {
          if (stopping.aborted) return;
          const one = readPubSub(message, subject, life);
          if (settlement.hold(one)) intake.offer([one]);
        });
      await unlessAborted(stopping, failed.promise);
    } catch (error) {
      if (!stopping.aborted) throw withWords(error);
    } finally {
      if (stopping.aborted) await settled;
      // Gives back what is not settled.
      await subscription.close().catch(() => undefined);
      await client.close().catch(() => undefined);
    }
  }

  return connectedSource(intake, clock, session, {
    readiness: dead.readiness,
    close: () => (client.isOpen ? client.close() : undefined),
  });
}
