/** Connects to Redis, for the source and the transport of streams: once, with every wait bounded. */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { Redis } from "ioredis";

/** A connection reports it beside the answers to its commands. */
export type RedisFault = Error & { readonly command?: { readonly name: string } };

/** True for an error that says no more than that there is no connection: another one says why. */
export const isSilent = (error: unknown): boolean =>
  error instanceof Error && /is closed|isn't writeable|Cluster isn't ready/.test(error.message);

const CONNECT_MS = 5_000;
/** Longest wait for a server that loads its data, ms: it states hours when it has just begun. */
const LOADING_MS = 500;

/**
 * Makes a client that connects once, at `connect()`.
 * @param silentMs a server that owes an answer for this long is taken for lost
 * @param failed gets what the connection reports: its commands say no more than that it is closed
 */
export function redisClient(
  url: string,
  tls: TlsOptions | undefined,
  silentMs: number,
  failed: (fault: RedisFault) => void,
): Redis {
  const client = new Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_MS,
    socketTimeout: silentMs,
    keepAlive: 10_000,
    retryStrategy: () => null,
    // While the server is away, the wait for its goodbye would hold the end of the process for 2 s.
    disconnectTimeout: 100,
    maxLoadingRetryTime: LOADING_MS,
    // After a failover the old master answers READONLY: the next connection may reach the new one.
    reconnectOnError: ({ message }) => message.startsWith("READONLY"),
    ...(tls && { tls }),
  });
  // Without a listener an error event ends the process.
  client.on("error", (fault: RedisFault) => void (isSilent(fault) || failed(fault)));
  client.on("close", () => {
    // The client leaves its timer for an answer running when the connection ends, and it would hold the process.
    clearTimeout((client as unknown as { readonly socketTimeoutTimer?: NodeJS.Timeout }).socketTimeoutTimer);
  });
  return client;
}
