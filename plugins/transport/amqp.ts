/** The AMQP transport publishes each delivery to an exchange of RabbitMQ and waits for the broker's confirmation. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { PublishRefused } from "./amqp/exchanges.ts";
import { AmqpLink } from "./amqp/link.ts";
import { busTransport } from "./buses/bus-transport.ts";
import { destinations, nameProblems, type OptionProblem } from "./buses/destination.ts";
import { clientProblems, loadClient } from "./buses/load.ts";
import { confirmed, refused, refusedBy, unavailable } from "./buses/replies.ts";
import { checkedUrl, urlProblems } from "./buses/secret-url.ts";
import { Sends } from "./buses/sends.ts";
import { readTls, tlsFileProblems, tlsProblems, type TlsFiles } from "./buses/tls-files.ts";

export interface ToAmqpOptions {
  /** Name of the connection in URLs: `amqp://<name>/exchange/routing.key`. */
  readonly name: string;
  /** `amqp://user:password@host:port/vhost`, `amqps://` for TLS. */
  readonly url: SecretOption;
  /** Paths of PEM files, for a URL that begins with `amqps:`. Without it the system's authorities are trusted. */
  readonly tls?: TlsFiles;
}

const OWN: readonly (keyof ToAmqpOptions)[] = ["name", "url", "tls"];

/** An exchange, and a routing key that may be left out. The default exchange, which reaches every queue, has no URL. */
const DESTINATION = /^([A-Za-z0-9][A-Za-z0-9._-]{0,126})(?:\/([A-Za-z0-9._-]{1,255}))?$/;
const RULE = "an exchange and a routing key: letters, digits and . _ -, such as deposits/deposits.paid";
const PACKAGES = ["amqplib"];
const SCHEMES = ["amqp", "amqps"];

/**
 * Delivers to `amqp:` URLs: `amqp://<name>/deposits/deposits.paid` is the exchange `deposits` with the routing key
 * `deposits.paid`; nothing is declared. The message is persistent and `mandatory`, its `messageId` is the same in each
 * attempt of a cycle, and its headers are named as they are. The broker's confirmation makes it delivered; a message
 * that no queue takes is a failure.
 */
export const toAmqp = (options: ToAmqpOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `amqp:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { url: options?.url },
  fileProblems: (configDir) => tlsFileProblems(`amqp:${options?.name}`, options?.tls, configDir),
  async setup({ clock, configDir, log, secret }) {
    const { connect } = await loadClient("toAmqp", PACKAGES, () => import("amqplib"));
    const { name } = options;
    const sends = new Sends(clock);
    const link = new AmqpLink({
      connect,
      clock,
      url: checkedUrl("toAmqp", secret("url"), SCHEMES),
      tls: readTls(`amqp:${name}`, options.tls, configDir),
      lost: () => sends.endAll(unavailable(name)),
      blocked: (why) => log.warn("RabbitMQ takes no messages", { transport: name, error: why }),
      failed: (why) => log.warn("a connection to RabbitMQ failed", { transport: name, error: why }),
    });

    return busTransport({
      scheme: "amqp",
      name,
      destination: destinations(`amqp://${name}/`, DESTINATION, RULE),
      sends,
      readiness() {
        if (link.exchanges === undefined) return "is not connected";
        return link.blocked ? "takes nothing: the broker is short of memory or disk" : undefined;
      },
      async publish([exchange = "", routingKey = ""], request) {
        const { blocked, exchanges } = link;
        if (blocked || exchanges === undefined) return unavailable(name);
        const returned = await exchanges.publish(exchange, routingKey, request);
        if (returned !== undefined)
          return refused(`no queue takes the routing key ${routingKey} of the exchange ${exchange} (${returned})`);
        return confirmed(`exchange ${exchange}, routing key ${routingKey}: confirmed`);
      },
      // A channel belongs to one exchange alone: what the broker says of it is a matter of the destination.
      failed: (error) => (error instanceof PublishRefused ? refusedBy(error.message) : unavailable(name)),
      close: () => link.close(),
    });
  },
});

function problemsOf({ name, url, tls }: Partial<ToAmqpOptions>): readonly OptionProblem[] {
  return [
    ...nameProblems(name),
    ...urlProblems("url", url, SCHEMES),
    ...tlsProblems(tls),
    ...clientProblems("toAmqp", PACKAGES),
  ];
}
