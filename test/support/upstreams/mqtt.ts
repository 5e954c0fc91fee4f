/** Mosquitto as an upstream: a topic with a session of its own, and a topic of dead letters. */
import { connectAsync, type MqttClient } from "mqtt";
import { fromMqtt } from "../../../plugins/source/mqtt.ts";
import type { Dead, Upstream } from "../message-laws.ts";
import { startMosquitto, type Mosquitto } from "../mosquitto.ts";
import { mqttTap } from "../mqtt-tap.ts";

export interface MqttUpstream extends Upstream {
  readonly mosquitto: Mosquitto;
  /** The test's own client. */
  readonly client: MqttClient;
  /** Names of the clients whose subscriptions are confirmed. */
  readonly subscribed: ReadonlySet<string>;
  /** Opens the session of a client that is not there, so that the broker keeps its messages from now on. */
  subscribe(clientId: string, filter: string, qos?: 1 | 2): Promise<void>;
}

export async function mqttUpstream(): Promise<MqttUpstream> {
  const mosquitto = await startMosquitto();
  const tap = await mqttTap(mosquitto.port);
  const url = `mqtt://127.0.0.1:${mosquitto.port}`;
  const session = { protocolVersion: 5, properties: { sessionExpiryInterval: 86_400 }, reconnectPeriod: 0 } as const;
  const dead = new Map<string, Dead[]>();
  const sent = new Map<string, Set<string>>();
  const denied = new Set<string>();
  let client: MqttClient;
  let count = 0;
  let numbers = 0;
  async function dial(): Promise<void> {
    client = await connectAsync(url, { ...session, clientId: "the-test", clean: false });
    client.on("error", () => {});
    client.on("message", (topic, payload, { properties = {} }) => {
      const letters = dead.get(topic.slice(0, -"-dead".length));
      letters?.push({ payload: payload.toString(), code: properties.userProperties?.["relay-code"] });
    });
  }
  await dial();
  async function subscribe(clientId: string, filter: string, qos: 1 | 2 = 1): Promise<void> {
    const other = await connectAsync(url, { ...session, clientId, clean: false });
    await other.subscribeAsync(filter, { qos });
    await other.endAsync();
  }
  return {
    server: mosquitto,
    mosquitto,
    get client() {
      return client;
    },
    port: tap.port,
    dial,
    subscribe,
    subscribed: tap.subscribed,
    from: fromMqtt,
    factory: "fromMqtt",
    async make() {
      const topic = `orders${++count}`;
      dead.set(topic, []);
      sent.set(topic, new Set());
      await subscribe(`relay-${topic}`, topic);
      await client.subscribeAsync(`${topic}-dead`, { qos: 1 });
      await mosquitto.save();
      return topic;
    },
    options: (topic, maxInFlight, port = tap.port) => ({
      ...{ url: `mqtt://127.0.0.1:${port}`, topic, clientId: `relay-${topic}`, deadLetterTopic: `${topic}-dead` },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    async send(topic, payloads, headers = {}) {
      const all = payloads.map(async (payload) => {
        const n = String(++numbers);
        sent.get(topic)?.add(n);
        await client.publishAsync(topic, payload, { qos: 1, properties: { userProperties: { ...headers, n } } });
      });
      await Promise.all(all);
      if (payloads.length > 100) await mosquitto.save();
    },
    left: (topic) => Promise.resolve((sent.get(topic) ?? new Set()).difference(tap.acknowledged).size),
    dead: (topic) => Promise.resolve(dead.get(topic) ?? []),
    async refuseDead(topic) {
      const again = async (): Promise<void> => {
        await mosquitto.deny([...denied]);
        await dial();
      };
      denied.add(`${topic}-dead`);
      await again();
      return async () => {
        denied.delete(`${topic}-dead`);
        await again();
      };
    },
    async [Symbol.asyncDispose]() {
      await client.endAsync(true);
      await tap[Symbol.asyncDispose]();
      await mosquitto[Symbol.asyncDispose]();
    },
  };
}
