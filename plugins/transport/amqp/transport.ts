/** The transport behind `toAmqp()`, loaded only where a config names it. */
import { unlessAborted } from "../../../core/lib/within.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { connect as amqpConnect } from "amqplib";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Transport } from "../../../core/ports/transport.ts";
import { onAmqp } from "../../brokers/amqp.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations } from "../buses/destination.ts";
import { keepLink } from "../buses/link.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";
import { Exchanges, PublishRefused } from "./exchanges.ts";

export interface ToAmqpOptions {
  /** Name of the connection in URLs: `amqp://<name>/exchange/routing.key`. */
  readonly name: string;
  /** `amqp://user:password@host:port/vhost`, `amqps://` for TLS. */
  readonly url: SecretOption;
  /** Paths of PEM files, for a URL that begins with `amqps:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}

/** An exchange, and a routing key that may be left out. The default exchange, which reaches every queue, has no URL. */
const DESTINATION = /^([A-Za-z0-9][A-Za-z0-9._-]{0,126})(?:\/([A-Za-z0-9._-]{1,255}))?$/;
const RULE = "an exchange and a routing key: letters, digits and . _ -, such as deposits/deposits.paid";

/** @param url where RabbitMQ is: the option, read and checked */
export function openAmqp(
  options: ToAmqpOptions,
  { clock, configDir, log }: PluginContext,
  connect: typeof amqpConnect,
  url: string,
): Transport {
  const { name } = options;
  const sends = new Sends(clock);
  const tls = readTls(`amqp:${name}`, options.tls, configDir);
  const broker = { connect, url, tls, name: "relaybox", clock };
  const lost = (): void => sends.endAll(unavailable(name));
  let exchanges: Exchanges | undefined;
  /** Whether the broker takes no messages, short of memory or disk. */
  let blocked = false;
  const link = keepLink({ clock, log, system: "RabbitMQ", name, lost }, (signal, { up }) =>
    onAmqp(broker, signal, async (connection, { promise }) => {
      blocked = false;
      connection.on("blocked", (why) => {
        blocked = true;
        log.warn("RabbitMQ takes no messages", { transport: name, error: why });
        lost();
      });
      connection.on("unblocked", () => {
        blocked = false;
        log.info("RabbitMQ takes messages again", { transport: name });
      });
      exchanges = new Exchanges(connection);
      up();
      await unlessAborted(signal, promise);
    }),
  );

  return busTransport({
    scheme: "amqp",
    name,
    destination: destinations(`amqp://${name}/`, DESTINATION, RULE),
    sends,
    readiness() {
      if (!link.up) return "is not connected";
      return blocked ? "takes nothing: the broker is short of memory or disk" : undefined;
    },
    async publish([exchange = "", routingKey = ""], request) {
      if (blocked || !link.up || exchanges === undefined) return unavailable(name);
      const returned = await exchanges.publish(exchange, routingKey, request);
      if (returned !== undefined)
        return refused(`no queue takes the routing key ${routingKey} of the exchange ${exchange} (${returned})`);
      return confirmed(`exchange ${exchange}, routing key ${routingKey}: confirmed`);
    },
    // A channel belongs to one exchange alone: what the broker says of it is a matter of the destination.
    failed: (error) => (error instanceof PublishRefused ? refusedBy(error.message) : unavailable(name)),
    close: () => link.close(),
  });
}
