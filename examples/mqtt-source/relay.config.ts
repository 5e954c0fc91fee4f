// Publishes what arrives on orders/# of an MQTT broker, beside POST /events. Needs the package mqtt.
import { defineRelay, http, secretFrom } from "relaybox";
import { mqttSource } from "./mqtt-source.ts";

export default defineRelay({
  sources: [
    http(),
    // MQTT_URL, or the file that MQTT_URL_FILE names.
    mqttSource({ url: secretFrom({ env: "MQTT_URL" }), topic: "orders/#", clientId: "relay-1" }),
  ],
});
