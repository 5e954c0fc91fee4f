/** The source for MQTT: what is published to topics. A message is acknowledged when its events are stored, and not before. */
import { anything, must, optional, text, texts, whole } from "../../core/ports/options.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { loadMqtt, MQTT_PACKAGES, MQTT_PROTOCOLS, MQTT_VERSION } from "../brokers/mqtt.ts";
import { messageSource } from "./messages/plugin.ts";
import type { FromMqttOptions } from "./mqtt/session.ts";

/** Publishes the messages of MQTT topics. Needs the package `mqtt`. */
export function fromMqtt(options: FromMqttOptions): Plugin<"source", Source> {
  return messageSource({
    factory: "fromMqtt",
    kind: "mqtt",
    options,
    protocols: MQTT_PROTOCOLS,
    rules: {
      topic: texts("a topic or a filter such as orders/+, or a list of them", /^[^\s\0]+$/, true),
      clientId: text("1 to 100 letters, digits, _ or -", /^[\w-]{1,100}$/),
      group: optional(text("the name of a group, without / + or #", /^[^\s/+#]+$/)),
      qos: optional(must("must be 1 or 2", (qos) => qos === 1 || qos === 2)),
      sessionMs: optional(whole(60_000)),
      maxInFlight: optional(whole(1, 65_535)),
      deadLetterTopic: optional(text("a topic, without + or #", /^[^\s+#]+$/)),
      version: MQTT_VERSION,
      tls: anything,
    },
    packages: MQTT_PACKAGES,
    async open(ctx, options, url) {
      const { connect } = await loadMqtt("fromMqtt");
      const { startMqtt } = await import("./mqtt/session.ts");
      return startMqtt(ctx, options, connect, url);
    },
  });
}
