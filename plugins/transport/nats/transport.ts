/** The transport behind `toNats()`, loaded only where a config names it. */
import { unlessAborted } from "../../../core/lib/within.ts";
import type { TlsFiles } from "../../../core/ports/tls-files.ts";
import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import type { MsgHdrs } from "@nats-io/transport-node";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { isUnanswered, natsOptions, onNats, type NatsLibrary } from "../../brokers/nats.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { keepLink } from "../buses/link.ts";
import { confirmed, refused, refusedBy, timedOut, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";

export interface ToNatsOptions {
  /** Name of the connection in URLs: `nats://<name>/deposits.paid`. */
  readonly name: string;
  /** `nats://host:4222`, or several of one cluster. A login is given in the options below, not here. */
  readonly servers: string | readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  readonly token?: SecretOption;
  /** The text of a `.creds` file: `secretFrom({ file: "relay.creds" })`. */
  readonly credentials?: SecretOption;
  /** Paths of PEM files. With `{}` the server must have a certificate that the system trusts. */
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

export function openNats(options: ToNatsOptions, context: PluginContext, nats: NatsLibrary): Transport {
  const { clock, log } = context;
  const { name } = options;
  const sends = new Sends(clock);
  const fault = new BusFault(clock);
  const destination = destinations(`nats://${name}/`, SUBJECT, RULE);
  let stream: { readonly client: JetStreamClient; readonly manager: Promise<JetStreamManager> } | undefined;
  const connecting = { ...natsOptions(context, options, nats, `nats:${name}`), ...CONNECTING };
  const lost = (): void => sends.endAll(unavailable(name));
  const link = keepLink({ clock, log, system: "NATS", name, lost }, (signal, { up, down }) =>
    onNats(nats.connect(connecting), clock, signal, async (connection, closed) => {
      const manager = nats.jetstreamManager(connection, { checkAPI: false });
      manager.catch(() => undefined);
      stream = { client: nats.jetstream(connection), manager };
      up();
      void (async () => {
        for await (const { type } of connection.status()) {
          if (type === "disconnect") down("it was lost");
          if (type === "reconnect") up();
        }
      })();
      await unlessAborted(signal, closed);
    }),
  );

  const away = (words: string): Reply => {
    if (fault.note(words)) log.warn("NATS takes no messages", { transport: name, error: words });
    return unavailable(name);
  };

  /** Nobody answered: either no stream takes the subject, or JetStream is not there. */
  async function unanswered(subject: string, manager: Promise<JetStreamManager>): Promise<Reply> {
    try {
      await (await manager).streams.find(subject);
    } catch (error) {
      if (isUnanswered(error) || error instanceof nats.errors.TimeoutError) return away("JetStream does not answer");
      return refused(`no stream takes the subject ${subject}`);
    }
    return away("a stream has no leader");
  }

  const failed = (error: unknown): Reply => {
    if (error instanceof nats.JetStreamApiError) {
      const { code, status, message } = error;
      return status === 503 && code !== STREAM_IS_FULL ? away(message) : refusedBy(message);
    }
    const { cause = error } = error as Error;
    if (cause instanceof nats.errors.PermissionViolationError)
      return refused(`the relay may not publish to the subject ${cause.subject}`);
    if (cause instanceof nats.errors.InvalidArgumentError) return refusedBy(cause.message);
    return unavailable(name);
  };

  return busTransport({
    scheme: "nats",
    name,
    destination,
    sends,
    readiness: () => (link.up ? fault.words() : "is not connected"),
    async publish([subject = ""], request) {
      if (!link.up || stream === undefined) return unavailable(name);
      const { body, messageId, timeoutMs } = request;
      const { client, manager } = stream;
      // The deadline of the send comes first: its reply says more.
      const how = { msgID: messageId, headers: headersOf(request, nats.headers()), timeout: timeoutMs + 1_000 };
      try {
        const { stream: taken, seq, duplicate } = await client.publish(subject, body, how);
        fault.clear();
        return confirmed(`stream ${taken}, sequence ${seq}${duplicate ? " (a repeat: it had it before)" : ""}`);
      } catch (error) {
        if (isUnanswered(error)) return await unanswered(subject, manager);
        if (error instanceof nats.errors.TimeoutError) return timedOut(timeoutMs);
        throw error;
      }
    },
    failed,
    close: () => link.close(),
  });
}

function headersOf({ headers }: TransportRequest, made: MsgHdrs): MsgHdrs {
  for (const [name, value] of Object.entries(headers)) if (!/^nats-/i.test(name)) made.set(name, value);
  return made;
}
