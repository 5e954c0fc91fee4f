/** The MQTT transport publishes each delivery to a topic. */
import { must, optional, secretUrl, checkedUrl } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { loadMqtt, MQTT_PACKAGES, MQTT_PROTOCOLS, MQTT_VERSION } from "../brokers/mqtt.ts";
import { busPlugin } from "./buses/plugin.ts";
import type { ToMqttOptions } from "./mqtt/transport.ts";

/**
 * Delivers to `mqtt:` URLs: `mqtt://<name>/deposits/paid` is the topic `deposits/paid`. The broker's acknowledgement makes it
 * delivered; where it says that nobody has subscribed (MQTT 5), it is a failure.
 */
export const toMqtt = (options: ToMqttOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "mqtt",
    options,
    rules: {
      url: secretUrl(MQTT_PROTOCOLS, true),
      qos: optional(must("must be 1 or 2", (qos) => qos === 1 || qos === 2)),
      version: MQTT_VERSION,
      tls: tlsRule(),
    },
    problems: packageProblems("toMqtt", MQTT_PACKAGES),
    secrets: { url: options?.url },
    async open(options, context) {
      const { connect } = await loadMqtt("toMqtt");
      const { MqttBus } = await import("./mqtt/transport.ts");
      const url = checkedUrl("toMqtt", context.secret("url"), MQTT_PROTOCOLS, true);
      return new MqttBus(options, context, connect, url).connect();
    },
  });
