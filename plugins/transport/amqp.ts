/** The AMQP transport publishes each delivery to an exchange of RabbitMQ and waits for the broker's confirmation. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Reply, Transport } from "../../core/ports/transport.ts";
import { Exchanges } from "./amqp/exchanges.ts";
import { busTransport } from "./buses/bus-transport.ts";
import { destinations, nameProblems, type OptionProblem } from "./buses/destination.ts";
import { clientProblems, loadClient } from "./buses/load.ts";
import { confirmed, refused, unavailable } from "./buses/replies.ts";
import { checkedUrl, urlProblems } from "./buses/secret-url.ts";
import { Sends } from "./buses/sends.ts";
import { readTls, tlsProblems, type TlsFiles } from "./buses/tls-files.ts";

export interface AmqpOptions {
  /** Name of the connection in URLs: `amqp://<name>/exchange/routing.key`. */
  readonly name: string;
  /** `amqp://user:password@host:port/vhost`, `amqps://` for TLS. */
  readonly url: SecretOption;
  /** Paths of PEM files, for a URL that begins with `amqps:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}

const OWN: readonly (keyof AmqpOptions)[] = ["name", "url", "tls"];

/** An exchange, and a routing key that may be left out. The default exchange, which reaches every queue, has no URL. */
const DESTINATION = /^([A-Za-z0-9][A-Za-z0-9._-]{0,126})(?:\/([A-Za-z0-9._-]{1,255}))?$/;
const RULE = "an exchange and a routing key: letters, digits and . _ -, such as deposits/deposits.paid";
const PACKAGES = ["rabbitmq-client"];
const SCHEMES = ["amqp", "amqps"];

const CONNECT_MS = 5_000;
/** Wait between attempts to connect, ms, at first and at last. */
const AGAIN_MS = 500;
const AGAIN_MOST_MS = 2_000;
/** Seconds after which a broker that says nothing is taken for lost. */
const HEARTBEAT_S = 10;

/**
 * Delivers to `amqp:` URLs: `amqp://<name>/deposits/deposits.paid` is the exchange `deposits` with the routing key
 * `deposits.paid`; nothing is declared. The message is persistent and `mandatory`, its `messageId` is the same in each
 * attempt of a cycle, and its headers are named as they are. The broker's confirmation makes it delivered; a message
 * that no queue takes is a failure.
 */
export const toAmqp = (options: AmqpOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `amqp:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { url: options?.url },
  async setup({ clock, configDir, log, secret }) {
    const { Connection } = await loadClient("toAmqp", PACKAGES, () => import("rabbitmq-client"));
    const { name } = options;
    const sends = new Sends(clock);
    const destination = destinations(`amqp://${name}/`, DESTINATION, RULE);
    const tls = await readTls(options.tls, configDir);
    const connection = new Connection({
      url: checkedUrl("toAmqp", secret("url"), SCHEMES),
      connectionName: "relay",
      connectionTimeout: CONNECT_MS,
      acquireTimeout: CONNECT_MS,
      heartbeat: HEARTBEAT_S,
      retryLow: AGAIN_MS,
      retryHigh: AGAIN_MOST_MS,
      noDelay: true,
      ...(tls && { tls }),
    });
    let blocked = false;
    let said = "";
    connection.on("connection", () => {
      blocked = false;
      said = "";
    });
    connection.on("connection.blocked", (reason) => {
      blocked = true;
      log.warn("RabbitMQ takes no messages", { transport: name, error: reason });
      sends.endAll(unavailable(name));
    });
    connection.on("connection.unblocked", () => (blocked = false));
    connection.on("error", (error: Error) => {
      // The client forgets what waits for a channel when the connection breaks.
      if (!connection.ready) sends.endAll(unavailable(name));
      if (error.message !== said)
        log.warn("a connection to RabbitMQ failed", { transport: name, error: error.message });
      said = error.message;
    });
    const exchanges = new Exchanges(connection);

    const failed = (error: unknown): Reply => {
      const { code, message, name: kind } = error as Error & { readonly code?: string };
      // The channel belongs to this exchange alone: what closed it is a matter of the destination.
      if (connection.ready && !blocked && kind === "AMQPChannelError") return refused(message);
      if (code === "NACK") return refused("the broker refused the message: a queue of it is full");
      return unavailable(name);
    };

    return busTransport({
      scheme: "amqp",
      name,
      destination,
      sends,
      readiness() {
        if (blocked) return "takes nothing: the broker is short of memory or disk";
        return connection.ready ? undefined : "is not connected";
      },
      async publish([exchange = "", routingKey = ""], request) {
        if (blocked || !connection.ready) return unavailable(name);
        const returned = await exchanges.publish(exchange, routingKey, request);
        if (returned !== undefined)
          return refused(`no queue takes the routing key ${routingKey} of the exchange ${exchange} (${returned})`);
        return confirmed(`exchange ${exchange}, routing key ${routingKey}: confirmed`);
      },
      failed,
      close: () => connection.unsafeDestroy(),
    });
  },
});

function problemsOf({ name, url, tls }: Partial<AmqpOptions>): readonly OptionProblem[] {
  return [
    ...nameProblems(name),
    ...urlProblems("url", url, SCHEMES),
    ...tlsProblems(tls),
    ...clientProblems("toAmqp", PACKAGES),
  ];
}
