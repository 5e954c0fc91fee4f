/** Connects to an MQTT broker, for the source and the transport. */
import type { IClientOptions, IConnackPacket, MqttClient } from "mqtt";
import { endsWithin, unlessAborted } from "../../core/lib/within.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import { choice, optional, type Rule } from "../../core/ports/options.ts";

export const MQTT_PACKAGES = ["mqtt"];
export const MQTT_PROTOCOLS = ["mqtt:", "mqtts:", "ws:", "wss:"];

type Library = Pick<typeof import("mqtt"), "connect">;

export interface MqttBroker {
  readonly connect: Library["connect"];
  /** Where it is: the option, read and checked. */
  readonly url: string;
  readonly tls: object | undefined;
  readonly clock: Clock;
  readonly version: "3.1.1" | "5" | undefined;
  readonly more: IClientOptions;
}

const CONNECT_MS = 10_000;
/** A goodbye takes no longer than this, ms. */
const CLOSE_MS = 2_000;
/** A broker that does not answer for one and a half times as long is taken for lost. */
const KEEP_ALIVE_SECONDS = 10;

export const MQTT_VERSION: Rule = optional(choice("3.1.1", "5"));

export const loadMqtt = (factory: string): Promise<Library> =>
  loadPackages(factory, MQTT_PACKAGES, () => import("mqtt"));

/**
 * Opens a connection, works on it, and closes it.
 * @param opened called with the client before it connects: messages may come right behind the broker's greeting
 * @param work is given what rejects when the connection is lost
 * @throws what has ended the connection; nothing for an end that the signal brought before it was open
 */
export async function onMqtt(
  { connect, url, tls, clock, version = "5", more }: MqttBroker,
  signal: AbortSignal,
  opened: (client: MqttClient) => void,
  work: (client: MqttClient, lost: Promise<never>, greeting: IConnackPacket) => Promise<void>,
): Promise<void> {
  const client = connect(url, {
    protocolVersion: version === "5" ? 5 : 4,
    keepalive: KEEP_ALIVE_SECONDS,
    connectTimeout: CONNECT_MS,
    // The source and the transport connect again by themselves.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    ...more,
    ...tls,
  });
  const { promise: lost, reject } = Promise.withResolvers<never>();
  lost.catch(() => undefined);
  const greeted = Promise.withResolvers<void>();
  let greeting: IConnackPacket | undefined;
  client.on("connect", (given) => {
    greeting = given;
    greeted.resolve();
  });
  client.on("error", reject);
  client.on("disconnect", ({ reasonCode }) =>
    reject(new Error(`the MQTT broker says goodbye, with code ${reasonCode}`)),
  );
  client.on("close", () => reject(new Error("the MQTT broker has closed the connection")));
  try {
    opened(client);
    await unlessAborted(signal, Promise.race([lost, greeted.promise]));
    // Also for an end that the signal has brought since: messages may have come behind the greeting.
    if (greeting !== undefined) await Promise.race([lost, work(client, lost, greeting)]);
  } finally {
    // The broker reads what was written before the goodbye, and closes: one that is hung up on while it answers drops the rest.
    const { stream } = client;
    const closed = stream.destroyed || new Promise((resolve) => void stream.once("close", resolve));
    await endsWithin(clock, CLOSE_MS, Promise.all([client.endAsync(!client.connected), closed]));
    stream.destroy();
  }
}
