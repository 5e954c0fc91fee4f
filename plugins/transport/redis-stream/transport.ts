/** The transport behind `toRedisStream()`, loaded only where a config names it. */
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import { Redis } from "ioredis";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { linkNews } from "../buses/link-news.ts";
import { confirmed, refusedBy, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";

export interface ToRedisStreamOptions {
  /** Name of the connection in URLs: `redis-stream://<name>/deposits`. */
  readonly name: string;
  /** `redis://user:password@host:port/db`, `rediss://` for TLS. */
  readonly url: SecretOption;
  /** About how many entries a stream keeps; Redis removes the oldest beyond that. All are kept without it. */
  readonly maxLen?: number;
  /** Paths of PEM files, for a URL that begins with `rediss:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}

const STREAM = /^([A-Za-z0-9][A-Za-z0-9._:-]{0,199})$/;
const RULE = "the key of a stream: 1 to 200 letters, digits and . _ : -, such as deposits:paid";

/** Wait between attempts to connect, ms. */
const AGAIN_MS = 500;
/** A server that owes an answer for this long is taken for lost, ms. */
const SILENT_MS = 5_000;

/** Errors of Redis that say that it takes nothing now: no fault of the stream that was named. */
const LATER =
  /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|MISCONF|OOM|BUSY|NOAUTH|WRONGPASS|UNKILLABLE)\b/;

/** @param url where Redis is: the option, read and checked */
export function openRedisStream(
  options: ToRedisStreamOptions,
  { clock, configDir, log }: PluginContext,
  url: string,
): Transport {
  const { name, maxLen } = options;
  const tls = readTls(`redis-stream:${name}`, options.tls, configDir);
  const sends = new Sends(clock);
  const destination = destinations(`redis-stream://${name}/`, STREAM, RULE);
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: SILENT_MS,
    socketTimeout: SILENT_MS,
    keepAlive: 10_000,
    retryStrategy: () => AGAIN_MS,
    // While the server is away, the wait for its goodbye would hold the end of the process for 2 s.
    disconnectTimeout: 100,
    maxLoadingRetryTime: AGAIN_MS,
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    ...(tls && { tls }),
  });
  const news = linkNews(log, "Redis", name);
  let up = false;
  /** True when the server does not have the database of the URL: the client would go on in database 0. */
  let noDatabase = false;
  client.on("connect", () => (noDatabase = false));
  client.on("error", ({ message, command }: Error & { readonly command?: { readonly name: string } }) => {
    noDatabase ||= command?.name === "select";
    news.failed(message);
  });
  client.on("ready", () => {
    up = true;
    if (!noDatabase) news.there();
  });
  client.on("close", () => {
    stopSocketTimer(client);
    if (up) news.failed("it was lost");
    up = false;
    sends.endAll(unavailable(name));
  });

  const fault = new BusFault(clock);
  const failed = (error: unknown): Reply => {
    const { name: kind, message } = error as Error;
    // Anything else is the connection's: closed, or never there.
    if (kind !== "ReplyError") return unavailable(name);
    if (!LATER.test(message)) return refusedBy(message);
    if (fault.note(`takes nothing (${message.split(" ", 1)[0]})`))
      log.warn("Redis takes no entries", { transport: name, error: message });
    return unavailable(name);
  };

  return busTransport({
    scheme: "redis-stream",
    name,
    destination,
    sends,
    readiness() {
      if (client.status !== "ready") return "is not connected";
      if (noDatabase) return "does not have the database of the url";
      return fault.words();
    },
    async publish([stream = ""], request) {
      if (noDatabase) throw new Error("no such database");
      const trim = maxLen === undefined ? [] : ["MAXLEN", "~", maxLen];
      const id = await client.call("XADD", stream, ...trim, "*", ...fieldsOf(request));
      fault.clear();
      return confirmed(`stream ${stream}, entry ${String(id)}`);
    },
    failed,
    close() {
      up = false;
      client.disconnect();
    },
  });
}

/**
 * The client leaves its timer for an answer running when a connection ends. It would hold the process, and cut the next
 * connection, which has no timer of its own as long as there is this one.
 */
function stopSocketTimer(client: Redis): void {
  const timed = client as unknown as { socketTimeoutTimer?: NodeJS.Timeout | undefined };
  clearTimeout(timed.socketTimeoutTimer);
  timed.socketTimeoutTimer = undefined;
}

/** The headers and the body. A subscriber's own header `event` would stand beside the body, so it is left out. */
function fieldsOf({ headers, body, messageId }: TransportRequest): (string | Buffer)[] {
  const fields: (string | Buffer)[] = ["event", Buffer.from(body.buffer, body.byteOffset, body.byteLength)];
  for (const [field, value] of Object.entries(headers)) if (field !== "event") fields.push(field, value);
  fields.push("messageId", messageId);
  return fields;
}
