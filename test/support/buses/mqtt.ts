/** Mosquitto, with a subscriber of the test to all that is published to `deposits/…`. */
import { connect, type MqttClient } from "mqtt";
import { toMqtt } from "../../../plugins/transport/mqtt.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { startMosquitto, type Mosquitto } from "../mosquitto.ts";
import { needs } from "../needs.ts";

export interface FarMqtt extends FarBus {
  readonly client: MqttClient;
  readonly server: Mosquitto;
}

export const mqttBus: BusHarness<FarMqtt> = {
  system: "MQTT",
  missing: needs("mosquitto"),
  make: toMqtt,
  options: (at) => ({ name: "bus", url: `mqtt://${at}` }),
  everyOption: { name: "bus", url: "mqtts://u:secret@mqtt:8883", qos: 2, version: "5", tls: { caFile: "ca" } },
  wrongOptions: [
    [{ url: { secretFrom: { env: "BUS_URL" } } }],
    [{ url: "http://:s3cret@x", qos: 0, version: "4" }, "url", "qos", "version"],
  ],
  urls: {
    rule: "a topic",
    right: ["deposits", "a/b-c/d_e.f", "0"],
    wrong: ["", "$SYS/broker", "a/#", "a/+", "+", "/a", "a//b", "a b", "$share/g/t", "x".repeat(256)],
  },
  place: /^200 topic deposits\/\w+$/,
  refused: ["mqtt://bus/nobody", /^error nobody has subscribed to the topic nobody$/],
  async start() {
    const server = await startMosquitto();
    const url = `mqtt://127.0.0.1:${server.port}`;
    const found = new Map<string, Arrived[]>();
    const client = connect(url, {
      ...{ protocolVersion: 5, clientId: "far", clean: false, reconnectPeriod: 50 },
      properties: { sessionExpiryInterval: 86_400 },
    });
    client.on("error", () => {});
    client.on("message", (topic, body, { properties = {} }) => {
      const { messageId = "", ...headers } = { ...(properties.userProperties as Record<string, string>) };
      found.set(topic, [...(found.get(topic) ?? []), { headers, messageId, body }]);
    });
    await client.subscribeAsync("deposits/#", { qos: 2 });
    await server.save();
    return {
      at: `127.0.0.1:${server.port}`,
      server,
      client,
      destination: (name) => Promise.resolve(`mqtt://bus/deposits/${name}`),
      arrived: (to, least) => atLeast(least, () => found.get(to.slice("mqtt://bus/".length)) ?? []),
      async [Symbol.asyncDispose]() {
        await client.endAsync(true);
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
