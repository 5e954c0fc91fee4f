/** The transport behind `toRedisStream()`, loaded only where a config names it. */
import { unlessAborted } from "../../../core/lib/within.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { Redis } from "ioredis";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { redisClient, type RedisFault } from "../../brokers/redis.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { keepLink } from "../buses/link.ts";
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
  let client: Redis | undefined;
  /** Whether the server does not have the database of the URL. */
  let noDatabase = false;
  const lost = (): void => sends.endAll(unavailable(name));
  const link = keepLink({ clock, log, system: "Redis", name, lost }, async (signal, { up }) => {
    const faults: RedisFault[] = [];
    const opened = redisClient(url, tls, SILENT_MS, (error) => void faults.push(error));
    const ended = new Promise<void>((resolve) => opened.once("end", resolve));
    try {
      await unlessAborted(signal, opened.connect());
      if (signal.aborted) return;
      // A client whose database is not there goes on in database 0, and only reports that.
      if (faults.length > 0) throw new Error("the connection is not as it should be");
      client = opened;
      up();
      await unlessAborted(signal, ended);
      throw new Error("it was lost");
    } catch (error) {
      throw faults[0] ?? error;
    } finally {
      noDatabase = faults[0]?.command?.name === "select";
      opened.disconnect();
    }
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
      if (!link.up) return noDatabase ? "does not have the database of the url" : "is not connected";
      return fault.words();
    },
    async publish([stream = ""], request) {
      if (!link.up || client === undefined) return unavailable(name);
      const trim = maxLen === undefined ? [] : ["MAXLEN", "~", maxLen];
      const id = await client.call("XADD", stream, ...trim, "*", ...fieldsOf(request));
      fault.clear();
      return confirmed(`stream ${stream}, entry ${String(id)}`);
    },
    failed,
    close: () => link.close(),
  });
}

/** The headers and the body. A subscriber's own header `event` would stand beside the body, so it is left out. */
function fieldsOf({ headers, body, messageId }: TransportRequest): (string | Buffer)[] {
  const fields: (string | Buffer)[] = ["event", Buffer.from(body.buffer, body.byteOffset, body.byteLength)];
  for (const [field, value] of Object.entries(headers)) if (field !== "event") fields.push(field, value);
  fields.push("messageId", messageId);
  return fields;
}
