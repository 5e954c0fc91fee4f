/** The transport behind `toNats()`, loaded only where a config names it. */
import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import type { MsgHdrs, NodeConnectionOptions } from "@nats-io/transport-node";
import { unlessAborted } from "../../../core/lib/within.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { isUnanswered, natsOptions, onNats, type NatsLibrary } from "../../brokers/nats.ts";
import { ConnectedBus } from "../buses/bus.ts";
import { confirmed, refused, refusedBy, timedOut, unavailable } from "../buses/replies.ts";

export interface ToNatsOptions {
  /** Its name in URLs: `nats://<name>/deposits.paid`. */
  readonly name: string;
  /** `nats://host:4222`, or several of one cluster, without a login. */
  readonly servers: string | readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  /** The text of a `.creds` file. */
  readonly credentials?: SecretOption;
  /** Paths of PEM files. `{}`: the system's authorities. */
  readonly tls?: TlsFiles;
}

/** Tokens that begin with a letter or digit: `$JS.API.…`, `_INBOX.…`, `*` and `>` are never reached. */
const SUBJECT = /^((?=.{1,255}$)[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9][A-Za-z0-9_-]*)*)$/;
const RULE = "a subject: letters, digits, _ and - in parts separated by ., such as deposits.paid";

/** Codes of JetStream: the stream is full, though its status is that of a server which is busy. */
const STREAM_IS_FULL = 10_077;

const CONNECTING = {
  name: "relay",
  // The client connects again by itself, but for a refused login.
  maxReconnectAttempts: -1,
  reconnectTimeWait: 500,
  // A server that answers none of two pings is taken for lost.
  pingInterval: 5_000,
  maxPingOut: 2,
  noAsyncTraces: true,
};

export class NatsBus extends ConnectedBus {
  readonly #nats: NatsLibrary;
  readonly #connecting: NodeConnectionOptions;
  #stream: { readonly client: JetStreamClient; readonly manager: Promise<JetStreamManager> } | undefined;

  constructor(options: ToNatsOptions, context: PluginContext, nats: NatsLibrary) {
    const { name } = options;
    super({ scheme: "nats", name, system: "NATS", takes: "messages", pattern: SUBJECT, rule: RULE }, context);
    this.#nats = nats;
    this.#connecting = { ...natsOptions(context, options, nats, `nats:${name}`), ...CONNECTING };
  }

  protected session(signal: AbortSignal, up: () => void): Promise<void> {
    const nats = this.#nats;
    return onNats(nats.connect(this.#connecting), this.clock, signal, async (connection, closed) => {
      const manager = nats.jetstreamManager(connection, { checkAPI: false });
      manager.catch(() => undefined);
      this.#stream = { client: nats.jetstream(connection), manager };
      up();
      void (async () => {
        for await (const { type } of connection.status()) {
          if (type === "disconnect") this.down("it was lost");
          if (type === "reconnect") up();
        }
      })();
      await unlessAborted(signal, closed);
    });
  }

  protected async publish([subject = ""]: readonly string[], request: TransportRequest): Promise<Reply> {
    if (!this.up || this.#stream === undefined) return unavailable(this.name);
    const { body, messageId, timeoutMs } = request;
    const { client, manager } = this.#stream;
    // The deadline of the send comes first: its reply says more.
    const how = { msgID: messageId, headers: headersOf(request, this.#nats.headers()), timeout: timeoutMs + 1_000 };
    try {
      const { stream, seq, duplicate } = await client.publish(subject, body, how);
      return confirmed(`stream ${stream}, sequence ${seq}${duplicate ? " (a repeat: it had it before)" : ""}`);
    } catch (error) {
      if (isUnanswered(error)) return await this.#unanswered(subject, manager);
      if (error instanceof this.#nats.errors.TimeoutError) return timedOut(timeoutMs);
      throw error;
    }
  }

  /** Nobody answered: either no stream takes the subject, or JetStream is not there. */
  async #unanswered(subject: string, manager: Promise<JetStreamManager>): Promise<Reply> {
    try {
      await (await manager).streams.find(subject);
    } catch (error) {
      const silent = isUnanswered(error) || error instanceof this.#nats.errors.TimeoutError;
      return silent
        ? this.takesNothing("JetStream does not answer")
        : refused(`no stream takes the subject ${subject}`);
    }
    return this.takesNothing("a stream has no leader");
  }

  protected failed(error: unknown): Reply {
    const { errors, JetStreamApiError } = this.#nats;
    if (error instanceof JetStreamApiError) {
      const { code, status, message } = error;
      return status === 503 && code !== STREAM_IS_FULL ? this.takesNothing(message) : refusedBy(message);
    }
    const { cause = error } = error as Error;
    if (cause instanceof errors.PermissionViolationError)
      return refused(`the relay may not publish to the subject ${cause.subject}`);
    if (cause instanceof errors.InvalidArgumentError) return refusedBy(cause.message);
    return unavailable(this.name);
  }
}

function headersOf({ headers }: TransportRequest, made: MsgHdrs): MsgHdrs {
  for (const [name, value] of Object.entries(headers)) if (!/^nats-/i.test(name)) made.set(name, value);
  return made;
}
