/** Sessions with an MQTT broker: each connects under the same name, and the broker keeps what it was not told of. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import type { connect as Connect, MqttClient } from "mqtt";
import { unlessAborted } from "../../../core/lib/within.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { onMqtt } from "../../brokers/mqtt.ts";
import { byConnection, connectedSource, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { acknowledge, deadLetterOf, readMqtt, takeOver, type MqttMessage } from "./messages.ts";

export interface FromMqttOptions extends MessageOptions {
  /** `mqtt://user:password@host:1883`, `mqtts://` for TLS, or `ws://`, `wss://`. It may be `secretFrom({ env: "MQTT_URL" })`. */
  readonly url: SecretOption;
  /** A topic, or a filter such as `orders/+`, or several of them. */
  readonly topic: string | readonly string[];
  /** The broker keeps what was not acknowledged under this name, over restarts. Each node needs its own. */
  readonly clientId: string;
  /** Nodes of one group share the messages (`$share/<group>/<topic>`). */
  readonly group?: string;
  /** The most that the relay asks for: 1, at least once, or 2, exactly once. Messages published with 0 come with 0. @default 1 */
  readonly qos?: 1 | 2;
  /** The broker keeps messages for so long while the relay is away (MQTT 5). @default 604_800_000 (7 days) */
  readonly sessionMs?: number;
  /** Most messages that the broker sends ahead of their acknowledgement (MQTT 5). @default 1_000 */
  readonly maxInFlight?: number;
  /**
   * The topic that a message without a valid event is published to, with the reason in its user properties. Without it the
   * relay keeps it.
   */
  readonly deadLetterTopic?: string;
  /** `"5"` or `"3.1.1"`. @default "5" */
  readonly version?: "3.1.1" | "5";
  /** Passed to `tls.connect`: `ca`, `cert`, `key`, `servername`. */
  readonly tls?: TlsOptions;
}

const DAY_MS = 86_400_000;

/** @param url where the broker is: the option, read and checked */
export function startMqtt(
  ctx: PluginContext,
  options: FromMqttOptions & Reading,
  connect: typeof Connect,
  url: string,
): Source {
  const { source, clientId, group, qos = 1, maxInFlight = 1_000, deadLetterTopic } = options;
  const sessionExpiryInterval = Math.min(0xffff_fffe, Math.ceil((options.sessionMs ?? 7 * DAY_MS) / 1_000));
  const properties = { sessionExpiryInterval, receiveMaximum: maxInFlight };
  const more = { clientId, clean: false, ...(options.version !== "3.1.1" && { properties }) };
  const broker = { connect, url, tls: options.tls, clock: ctx.clock, version: options.version, more };
  const topics = typeof options.topic === "string" ? [options.topic] : [...options.topic];
  const filters = topics.map((topic) => (group === undefined ? topic : `$share/${group}/${topic}`));
  const dead = new DeadLetters(ctx, source);
  const intake: Intake<MqttMessage> = new Intake(ctx, {
    reading: options,
    maxInFlight,
    upstream: {
      stored: (messages) => byConnection(messages, ({ stream }) => stream, acknowledge),
      async setAside(message, poison) {
        const { client, ending, stream } = message;
        if (deadLetterTopic === undefined) await dead.keep(message, poison);
        else await dead.pass(message, poison, () => deadLetterOf(client, deadLetterTopic, message, poison), ending);
        acknowledge(stream, [message]);
      },
    },
  });

  function opened(client: MqttClient, ending: AbortSignal): void {
    takeOver(client, (packet) => intake.offer([readMqtt(packet, client, ending)]));
    // A broker that speaks 3.1.1 knows no bound: while too much is in flight, nothing more is read.
    client.handleMessage = (_packet, done) => void (intake.isFull ? intake.room().then(() => done()) : done());
  }

  const session = ({ stopping, settled, ending, connected }: SessionLife): Promise<void> =>
    onMqtt(
      broker,
      stopping,
      (client) => opened(client, ending),
      async (client, lost) => {
        // A filter that the broker knows sends no retained message again.
        const how = { qos, ...(options.version !== "3.1.1" && { rh: 1 }) };
        if (!stopping.aborted) await unlessAborted(stopping, client.subscribeAsync(filters, how));
        if (!stopping.aborted) connected();
        await unlessAborted(stopping, lost);
        await settled;
      },
    );
  return connectedSource(intake, ctx.clock, session, dead);
}
