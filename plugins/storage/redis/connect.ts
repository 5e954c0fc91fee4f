/** Connects to Redis: unstorage's driver makes the ioredis client, with every wait bounded. */
import type { Cluster, Redis, RedisOptions as ClientOptions } from "ioredis";
import type { Driver } from "unstorage";
import { isSilent } from "../../brokers/redis.ts";
import type { ReadOptions } from "./options.ts";

export type Client = Redis | Cluster;

/** Keeps what each client has reported since it was ready last. */
const faults = new WeakMap<Client, unknown>();

/** Returns why a command of the client failed: of one that is not connected, it says no more than that it is closed. */
export const faultBehind = (client: Client, error: unknown): unknown =>
  isSilent(error) ? (faults.get(client) ?? error) : error;

/** Returns where the options say that Redis is, for people, without user and password. */
export function placeOf({ url, sentinels, cluster }: ReadOptions): string {
  if (url !== undefined) return new URL(url).host;
  return [...(sentinels ?? cluster ?? [])].map(({ host, port }) => `${host}:${port}`).join(", ");
}

/** Time for the answer to one command, ms. */
export const COMMAND_MS = 900;
/** Time for a whole call with its retries, ms. */
export const CALL_MS = 1_800;
/** Wait between attempts to connect, ms. */
const AGAIN_MS = 200;

/** Returns what Redis said, without the script and the line that Redis 6 puts before it. */
export const withoutPlace = (message: string): string =>
  /^ERR Error running script .*?: -([A-Z]+ .*)$/s.exec(message)?.[1] ?? message;

/**
 * Measured: with the client's defaults, calls to a Redis behind a black hole waited longer than 15 s. So: no queue for
 * commands without a connection, no retries in the client (ours carry a commit id), an answer within `COMMAND_MS`, and
 * a connection that does not answer is dropped and replaced.
 */
function clientOptions(options: ReadOptions): ClientOptions {
  const { username, password, tls } = options;
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
    socketTimeout: COMMAND_MS + 50,
    connectTimeout: 1_500,
    keepAlive: 10_000,
    retryStrategy: () => AGAIN_MS,
    // While Redis is unreachable, the wait for its goodbye would hold the end of the process for 2 s.
    disconnectTimeout: 100,
    // A Redis that loads its data states how long that will take, and states hours when it has just begun.
    maxLoadingRetryTime: AGAIN_MS,
    // After a failover the old master answers READONLY: find the new one.
    reconnectOnError: ({ message }) => withoutPlace(message).startsWith("READONLY"),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined || tls === false ? {} : { tls: tlsOf(tls) }),
  };
}

const tlsOf = (tls: true | { readonly ca: string }): { readonly ca?: string } => (tls === true ? {} : { ca: tls.ca });

/** Returns the hash tag that all keys begin with, so that they are in one slot of a cluster. */
export const tagOf = (prefix: string): string => `{${prefix}}`;

export interface RedisConnection {
  readonly client: Client;
  /** unstorage's view of the same client, for the records. */
  readonly driver: Driver;
  /** Opens a second connection for subscribing. */
  subscriber(): Client;
  /** Opens one more, which waits for an answer as long as its caller does. */
  patient(): Client;
  /** Closes them all. */
  end(): void;
}

export async function connection(options: ReadOptions, prefix: string): Promise<RedisConnection> {
  const { default: redisDriver } = await import("unstorage/drivers/redis");
  const base = `${tagOf(prefix)}:r`;
  const make = (common: ClientOptions): Driver => {
    if (options.cluster !== undefined) {
      const clusterOptions = {
        redisOptions: common,
        lazyConnect: true,
        enableOfflineQueue: false,
        clusterRetryStrategy: () => AGAIN_MS,
        slotsRefreshTimeout: COMMAND_MS,
        slotsRefreshInterval: 5_000,
        retryDelayOnFailover: 100,
        retryDelayOnClusterDown: 100,
        // Our own retries follow: one that is cut off by the end of its time would leave open whether it was made.
        retryDelayOnTryAgain: 1,
        maxRedirections: 8,
      };
      return redisDriver({ base, cluster: [...options.cluster], clusterOptions });
    }
    if (options.sentinels !== undefined) {
      const { sentinels, name = "mymaster", sentinelPassword, tls, sentinelTls } = options;
      return redisDriver({
        ...common,
        base,
        sentinels: [...sentinels],
        name,
        sentinelRetryStrategy: () => AGAIN_MS,
        sentinelCommandTimeout: COMMAND_MS,
        ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
        ...(tls === undefined || tls === false ? {} : { enableTLSForSentinelMode: true }),
        ...(sentinelTls === undefined || sentinelTls === false ? {} : { sentinelTLS: tlsOf(sentinelTls) }),
      });
    }
    return redisDriver({ ...common, base, url: options.url as string });
  };
  const clients: Client[] = [];
  const open = (own: ClientOptions): { readonly client: Client; readonly driver: Driver } => {
    const driver = make(own);
    const client = driver.getInstance?.() as Client;
    // Without a listener an error event ends the process.
    client.on("error", (fault: unknown) => void (isSilent(fault) || faults.set(client, fault)));
    client.on("ready", () => void faults.delete(client));
    clients.push(client);
    return { client, driver };
  };
  const common = clientOptions(options);
  const { commandTimeout: _command, socketTimeout: _socket, ...patient } = common;
  return {
    ...open(common),
    subscriber: () => open(common).client,
    patient: () => open(patient).client,
    end() {
      for (const client of clients) client.disconnect();
    },
  };
}
