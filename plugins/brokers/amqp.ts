/** Connects to RabbitMQ over AMQP 0-9-1, for the source and the transport. */
import type { ChannelModel, connect as amqpConnect } from "amqplib";
import { endsWithin, unlessAborted } from "../../core/lib/within.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";

export const AMQP_PACKAGES = ["amqplib"];
export const AMQP_PROTOCOLS = ["amqp:", "amqps:"];

export interface AmqpBroker {
  readonly connect: typeof amqpConnect;
  /** Where it is: the option, read and checked. */
  readonly url: string;
  readonly tls: object | undefined;
  /** Stands beside the connection in RabbitMQ's lists. */
  readonly name: string;
  readonly clock: Clock;
}

const CONNECT_MS = 10_000;
/** A goodbye takes no longer than this, ms. */
const CLOSE_MS = 1_000;
/** Two missed ones, and the connection is lost: a broker that hangs is noticed within half a minute. */
const HEARTBEAT_SECONDS = "10";

/** Loads a client that gives bytes. Others parse JSON, which changes the spelling of numbers in a signed body. */
export const loadAmqp = (factory: string) => loadPackages(factory, AMQP_PACKAGES, () => import("amqplib"));

/**
 * Opens a connection, works on it, and closes it, whatever state it is in.
 * @param work is given what rejects when the connection is lost, and may reject it itself
 * @throws what has ended the connection; nothing for an end that the signal brought before it was open
 */
export async function onAmqp(
  { connect, url: at, tls, name, clock }: AmqpBroker,
  signal: AbortSignal,
  work: (connection: ChannelModel, lost: PromiseWithResolvers<never>) => Promise<void>,
): Promise<void> {
  const url = new URL(at);
  if (!url.searchParams.has("heartbeat")) url.searchParams.set("heartbeat", HEARTBEAT_SECONDS);
  const how = { ...tls, timeout: CONNECT_MS, noDelay: true, clientProperties: { connection_name: name } };
  const opening = connect(url.href, how);
  await unlessAborted(signal, opening);
  // A stop waits for no broker: a connection that opens afterwards is closed at once.
  if (signal.aborted) return void opening.then(hangUp, () => undefined);
  const connection = await opening;
  const lost = Promise.withResolvers<never>();
  connection.on("error", lost.reject);
  connection.on("close", (error?: Error) => lost.reject(error ?? new Error("RabbitMQ has closed the connection")));
  try {
    await Promise.race([lost.promise, work(connection, lost)]);
  } finally {
    await hangUp(connection);
  }

  async function hangUp(opened: ChannelModel): Promise<void> {
    // A heartbeat that is missed from here on is no news, and without a listener it would end the process.
    opened.on("error", () => undefined);
    await endsWithin(clock, CLOSE_MS, (async () => opened.close())());
    // A broker that does not answer leaves the socket open, and with it the process.
    (opened.connection as { readonly stream?: { destroy(): void } }).stream?.destroy();
  }
}
