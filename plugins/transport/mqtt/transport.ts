/** The transport behind `toMqtt()`, loaded only where a config names it. */
import type { connect as Connect, MqttClient } from "mqtt";
import { Waiters } from "../../../core/lib/waiters.ts";
import { unlessAborted } from "../../../core/lib/within.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { onMqtt, type MqttBroker } from "../../brokers/mqtt.ts";
import { ConnectedBus } from "../buses/bus.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";

export interface ToMqttOptions {
  /** Name of the connection in URLs: `mqtt://<name>/deposits/paid`. */
  readonly name: string;
  /** `mqtt://user:password@host:1883`, `mqtts://` for TLS, or `ws://`, `wss://`. */
  readonly url: SecretOption;
  /** 1, at least once, or 2, exactly once for the broker. @default 1 */
  readonly qos?: 1 | 2;
  /** `"5"` or `"3.1.1"`, which has no headers: the body alone arrives. @default "5" */
  readonly version?: "3.1.1" | "5";
  /** Paths of PEM files, for a URL that begins with `mqtts:` or `wss:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}

/** Begins with a letter or digit: `$SYS/…` and `$share/…` are never reached; no wildcards. */
const TOPIC = /^((?=.{1,255}$)[A-Za-z0-9][A-Za-z0-9_.:-]*(?:\/[A-Za-z0-9_.:-]+)*)$/;
const RULE = "a topic: letters, digits and . _ : - in parts separated by /, such as deposits/paid";

/** The broker took it, and nobody has subscribed. */
const NOBODY = 16;
/** Codes of the broker that concern the topic or the message, not the connection. */
const REFUSALS: ReadonlySet<number> = new Set([128, 131, 135, 144, 149, 153]);
/** It has no room: for now, for anybody. */
const QUOTA_EXCEEDED = 151;

export class MqttBus extends ConnectedBus {
  readonly #broker: MqttBroker;
  readonly #qos: 1 | 2;
  readonly #room = new Waiters();
  /** Packet ids of messages that the broker took though nobody has subscribed: the client does not say it. */
  readonly #nobody = new Set<number>();
  #client: MqttClient | undefined;
  #inFlight = 0;
  /** Most messages that the broker takes before it has acknowledged one. */
  #most = 1;

  /** @param url where the broker is: the option, read and checked */
  constructor(options: ToMqttOptions, context: PluginContext, connect: typeof Connect, url: string) {
    const { name, qos = 1, version, tls } = options;
    super({ scheme: "mqtt", name, system: "MQTT", takes: "messages", pattern: TOPIC, rule: RULE }, context);
    this.#qos = qos;
    const read = readTls(`mqtt:${name}`, tls, context.configDir);
    this.#broker = { connect, url, tls: read, clock: context.clock, version, more: { clean: true } };
  }

  protected session(signal: AbortSignal, up: () => void): Promise<void> {
    return onMqtt(
      this.#broker,
      signal,
      (client) => {
        this.#nobody.clear();
        client.on("packetreceive", (packet) => {
          const isAnswer = packet.cmd === "puback" || packet.cmd === "pubrec";
          if (isAnswer && packet.reasonCode === NOBODY) this.#nobody.add(packet.messageId ?? 0);
        });
      },
      async (client, lost, { properties }) => {
        this.#client = client;
        this.#inFlight = 0;
        this.#most = properties?.receiveMaximum ?? 65_535;
        up();
        await unlessAborted(signal, lost);
      },
    );
  }

  protected async publish(
    [topic = ""]: readonly string[],
    request: TransportRequest,
    sending: Sending,
  ): Promise<Reply> {
    const client = this.#client;
    while (this.up && client === this.#client && this.#inFlight >= this.#most && !sending.ended)
      await this.#room.wait(sending.over);
    if (!this.up || client === undefined || client !== this.#client || sending.ended) return unavailable(this.name);
    const { headers, body, messageId } = request;
    const properties = { userProperties: { ...headers, messageId } };
    const v5 = client.options.protocolVersion === 5;
    this.#inFlight++;
    try {
      const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
      const answer = await client.publishAsync(topic, bytes, { qos: this.#qos, ...(v5 && { properties }) });
      const { messageId: packetId = 0 } = (answer ?? {}) as { readonly messageId?: number };
      if (this.#nobody.delete(packetId)) return refused(`nobody has subscribed to the topic ${topic}`);
      return confirmed(`topic ${topic}`);
    } finally {
      if (client === this.#client) this.#inFlight--;
      this.#room.wake();
    }
  }

  protected failed(error: unknown): Reply {
    const { code, message } = error as { readonly code?: unknown; readonly message: string };
    if (code === QUOTA_EXCEEDED) return this.takesNothing("takes nothing now (quota exceeded)", error);
    return typeof code === "number" && REFUSALS.has(code) ? refusedBy(message) : unavailable(this.name);
  }
}
