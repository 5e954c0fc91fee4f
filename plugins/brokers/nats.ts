/** Connects to NATS, for the source and the transport. */
import type { NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node";
import { endsWithin, unlessAborted } from "../../core/lib/within.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Clock } from "../../core/ports/clock.ts";
import { loadPackages } from "../../core/ports/optional-package.ts";
import { optional, secret, texts } from "../../core/ports/options.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";
import { tlsPaths, type TlsFiles } from "../../core/ports/tls-files.ts";

interface NatsServers {
  readonly servers: string | readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  readonly credentials?: SecretOption;
  readonly tls?: TlsFiles;
}

export type NatsLibrary = typeof import("@nats-io/transport-node") & typeof import("@nats-io/jetstream");

export const NATS_PACKAGES = ["@nats-io/transport-node", "@nats-io/jetstream"];

/** The rule of `servers`. @param what it must be, for people */
export const natsServers = (what: string) => texts(what, /^(?:(?:nats|tls):\/\/)?[^\s/@]+$/, true);

export const NATS_LOGIN = { password: optional(secret), token: optional(secret), credentials: optional(secret) };

export const natsSecrets = (options: NatsServers | undefined) => ({
  password: options?.password,
  token: options?.token,
  credentials: options?.credentials,
});

const CONNECT_MS = 10_000;
/** A goodbye takes no longer than this, ms. */
const CLOSE_MS = 1_000;

export const loadNats = (factory: string): Promise<NatsLibrary> =>
  loadPackages(factory, NATS_PACKAGES, async () => ({
    ...(await import("@nats-io/transport-node")),
    ...(await import("@nats-io/jetstream")),
  }));

/** @param plugin its name, for people. @throws StartError 78 when a file cannot be read */
export function natsOptions(
  { secret: read, configDir }: PluginContext,
  { servers, user, password, token, credentials, tls }: NatsServers,
  { credsAuthenticator }: NatsLibrary,
  plugin: string,
): NodeConnectionOptions {
  return {
    servers: typeof servers === "string" ? servers : [...servers],
    timeout: CONNECT_MS,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { pass: read("password") }),
    ...(token !== undefined && { token: read("token") }),
    ...(credentials !== undefined && { authenticator: credsAuthenticator(Buffer.from(read("credentials"))) }),
    ...(tls !== undefined && { tls: tlsPaths(plugin, tls, configDir) }),
  };
}

/**
 * Opens a connection, works on it, and closes it.
 * @param lost rejects when the connection is closed
 * @throws what has ended the connection; nothing for an end that the signal brought before it was open
 */
export async function onNats(
  opening: Promise<NatsConnection>,
  clock: Clock,
  signal: AbortSignal,
  work: (connection: NatsConnection, lost: Promise<never>) => Promise<void>,
): Promise<void> {
  await unlessAborted(signal, opening);
  // A stop waits for no server: a connection that opens afterwards is closed at once.
  if (signal.aborted) return void opening.then((late) => late.close()).catch(() => undefined);
  const connection = await opening;
  const lost = connection.closed().then((why) => Promise.reject(why ?? new Error("NATS has closed the connection")));
  try {
    await Promise.race([lost, work(connection, lost)]);
  } finally {
    // Acknowledgements are sent before the connection closes.
    if (!connection.isClosed()) await endsWithin(clock, CLOSE_MS, connection.drain());
    await connection.close().catch(() => undefined);
  }
}

/** Returns true when nobody has answered: no stream listens there. The client does not export the class. */
export const isUnanswered = (error: unknown): boolean => (error as Error).name === "JetStreamNotEnabled";
