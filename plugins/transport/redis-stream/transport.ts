/** The transport behind `toRedisStream()`, loaded only where a config names it. */
import type { Redis } from "ioredis";
import { unlessAborted } from "../../../core/lib/within.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { redisClient, type RedisFault } from "../../brokers/redis.ts";
import { ConnectedBus } from "../buses/bus.ts";
import { confirmed, refusedBy, unavailable } from "../buses/replies.ts";

export interface ToRedisStreamOptions {
  /** Its name in URLs: `redis-stream://<name>/deposits`. */
  readonly name: string;
  /** `redis://user:password@host:port/db`, `rediss://` for TLS. */
  readonly url: SecretOption;
  /** About how many entries a stream keeps, the newest; all without it. */
  readonly maxLen?: number;
  /** Paths of PEM files for `rediss:`. Without it the system's authorities count. */
  readonly tls?: TlsFiles;
}

const STREAM = /^([A-Za-z0-9][A-Za-z0-9._:-]{0,199})$/;
const RULE = "the key of a stream: 1 to 200 letters, digits and . _ : -, such as deposits:paid";

/** A server that owes an answer for this long is taken for lost, ms. */
const SILENT_MS = 5_000;

/** Errors of Redis that say that it takes nothing now: no fault of the stream that was named. */
const LATER =
  /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|MISCONF|OOM|BUSY|NOAUTH|WRONGPASS|UNKILLABLE)\b/;

export class RedisStreamBus extends ConnectedBus {
  readonly #url: string;
  readonly #tls: ReturnType<typeof readTls>;
  /** Bounds the stream that an entry is added to. */
  readonly #trim: readonly (string | number)[];
  #client: Redis | undefined;
  /** True when the server does not have the database of the URL. */
  #noDatabase = false;

  /** @param url where Redis is: the option, read and checked */
  constructor({ name, maxLen, tls }: ToRedisStreamOptions, context: PluginContext, url: string) {
    super({ scheme: "redis-stream", name, system: "Redis", takes: "entries", pattern: STREAM, rule: RULE }, context);
    this.#url = url;
    this.#tls = readTls(`redis-stream:${name}`, tls, context.configDir);
    this.#trim = maxLen === undefined ? [] : ["MAXLEN", "~", maxLen];
  }

  override readiness(): string | undefined {
    return !this.up && this.#noDatabase ? "does not have the database of the url" : super.readiness();
  }

  protected async session(signal: AbortSignal, up: () => void): Promise<void> {
    const faults: RedisFault[] = [];
    const client = redisClient(this.#url, this.#tls, SILENT_MS, (error) => void faults.push(error));
    const ended = new Promise<void>((resolve) => client.once("end", resolve));
    try {
      await unlessAborted(signal, client.connect());
      if (signal.aborted) return;
      // A client whose database is not there goes on in database 0, and only reports that.
      if (faults.length > 0) throw new Error("the connection is not as it should be");
      this.#client = client;
      up();
      await unlessAborted(signal, ended);
      throw new Error("it was lost");
    } catch (error) {
      throw faults[0] ?? error;
    } finally {
      this.#noDatabase = faults[0]?.command?.name === "select";
      client.disconnect();
    }
  }

  protected async publish([stream = ""]: readonly string[], request: TransportRequest): Promise<Reply> {
    if (!this.up || this.#client === undefined) return unavailable(this.name);
    const id = await this.#client.call("XADD", stream, ...this.#trim, "*", ...fieldsOf(request));
    return confirmed(`stream ${stream}, entry ${String(id)}`);
  }

  protected failed(error: unknown): Reply {
    const { name: kind, message } = error as Error;
    // Anything else is the connection's: closed, or never there.
    if (kind !== "ReplyError") return unavailable(this.name);
    return LATER.test(message)
      ? this.takesNothing(`takes nothing (${message.split(" ", 1)[0]})`, message)
      : refusedBy(message);
  }
}

/** The headers and the body. A subscriber's own header `event` would stand beside the body, so it is left out. */
function fieldsOf({ headers, body, messageId }: TransportRequest): (string | Buffer)[] {
  const fields: (string | Buffer)[] = ["event", Buffer.from(body.buffer, body.byteOffset, body.byteLength)];
  for (const [field, value] of Object.entries(headers)) if (field !== "event") fields.push(field, value);
  fields.push("messageId", messageId);
  return fields;
}
