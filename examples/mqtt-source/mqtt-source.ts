/** Publishes what arrives on an MQTT topic; a message is acknowledged (QoS 1) when its event is stored, and not before. */
import type { IPublishPacket, MqttClient } from "mqtt";
import { isLater, isSecretOption, Problem } from "relaybox";
import type { Accept, Plugin, PluginContext, SecretOption, Source } from "relaybox";

export interface MqttSourceOptions {
  /** `mqtt://user:password@host:1883`, or `mqtts://`. */
  readonly url: SecretOption;
  /** The topic, or a filter such as `orders/+`. Each message is one event as `POST /events` takes it, with an id of its own. */
  readonly topic: string;
  /** The broker keeps what was not acknowledged under this name, over restarts. Each node needs its own. */
  readonly clientId: string;
}

const NAME = "mqtt";
const REFUSED = "relay_source_mqtt_refused_total";
const AGAIN = "relay_source_mqtt_tried_again_total";
/** How many refused messages are kept to be looked at; a new one takes the place of the oldest. */
const KEPT = 100;
const RETRY_MS = 1_000;

export function mqttSource(options: MqttSourceOptions): Plugin<"source", Source> {
  const { url, topic, clientId } = options;
  const problems = [
    ...(isSecretOption(url) ? [] : [{ path: "url", message: "must be text, or secretFrom(…)" }]),
    ...Object.entries({ topic, clientId })
      .filter(([, value]) => typeof value !== "string" || value === "")
      .map(([path]) => ({ path, message: "must be text, not empty" })),
  ];
  return {
    kind: "source",
    name: NAME,
    problems,
    secrets: { url: problems.length === 0 ? url : undefined },
    metrics: [
      { name: REFUSED, type: "counter", help: "Messages set aside, by code", labels: ["code"] },
      { name: AGAIN, type: "counter", help: "Times that a message was not stored yet, and kept" },
    ],
    setup: (ctx) => open(options, ctx),
  };
}

async function open({ topic, clientId }: MqttSourceOptions, ctx: PluginContext): Promise<Source> {
  // Loaded here, so that a config that does not name this plug-in never loads it.
  const { connect } = await import("mqtt");
  const { clock, log, metrics, storage } = ctx;
  const stopping = new AbortController();
  let client: MqttClient | undefined;
  let underWay: Promise<unknown> = Promise.resolve();
  let refused = 0;

  /** Resolves when the message may be acknowledged. @throws the reason of the stop */
  async function take(accept: Accept, { topic: from, payload }: IPublishPacket): Promise<void> {
    const text = payload.toString();
    for (;;) {
      stopping.signal.throwIfAborted();
      try {
        await accept({ publications: [{ text, path: "" }], source: NAME });
        return;
      } catch (error) {
        if (error instanceof Problem && !isLater(error)) return await setAside(from, text, error);
        metrics.count(AGAIN);
        log.warn("a message waits", { source: NAME, error: String(error) });
        const waitMs = error instanceof Problem ? (error.extras.retryAfter ?? 1) * 1_000 : RETRY_MS;
        await clock.sleep(clock.now() + waitMs, stopping.signal);
      }
    }
  }

  /** Keeps what can never be stored, so that what is behind it goes on. */
  async function setAside(from: string, text: string, { code, detail }: Problem): Promise<void> {
    const value = JSON.stringify({ at: clock.now(), topic: from, code, detail, text });
    await storage.commit([{ op: "put", key: `refused:${refused++ % KEPT}`, value }]);
    metrics.count(REFUSED, { code });
    log.warn("a message is set aside", { source: NAME, code, detail });
  }

  return {
    start(accept) {
      // The address is the operator's, so the client may open its own socket. It connects again by itself.
      const mqtt = connect(ctx.secret("url"), { clientId, clean: false, resubscribe: true });
      client = mqtt;
      mqtt.on("error", (error) => log.warn("no connection to the broker", { source: NAME, error: error.message }));
      mqtt.on("connect", () => mqtt.subscribe(topic, { qos: 1 }));
      // Called for one message after the other; the acknowledgement is sent when `done` is called.
      mqtt.handleMessage = (packet, done) => {
        underWay = take(accept, packet).then(
          () => done(),
          (error: unknown) => {
            if (!stopping.signal.aborted) log.error("a message is left to the broker", { error: String(error) });
          },
        );
      };
    },
    async stop() {
      stopping.abort();
      await underWay;
      await client?.endAsync();
    },
    readiness: () => (client?.connected === true ? undefined : "no connection to the MQTT broker"),
  };
}
