/** The transport behind `toAmqp()`, loaded only where a config names it. */
import { unlessAborted } from "../../../core/lib/within.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { onAmqp, type AmqpBroker } from "../../brokers/amqp.ts";
import { ConnectedBus } from "../buses/bus.ts";
import { confirmed, refused, refusedBy, unavailable } from "../buses/replies.ts";
import { Exchanges, PublishRefused } from "./exchanges.ts";

export interface ToAmqpOptions {
  /** Its name in URLs: `amqp://<name>/exchange/routing.key`. */
  readonly name: string;
  /** `amqp://user:password@host:port/vhost`, `amqps://` for TLS. */
  readonly url: SecretOption;
  /** Paths of PEM files for `amqps:`. Without it the system's authorities count. */
  readonly tls?: TlsFiles;
}

/** An exchange, and a routing key that may be left out. The default exchange, which reaches every queue, has no URL. */
const DESTINATION = /^([A-Za-z0-9][A-Za-z0-9._-]{0,126})(?:\/([A-Za-z0-9._-]{1,255}))?$/;
const RULE = "an exchange and a routing key: letters, digits and . _ -, such as deposits/deposits.paid";

export class AmqpBus extends ConnectedBus {
  readonly #broker: AmqpBroker;
  #exchanges: Exchanges | undefined;
  /** True while the broker takes no messages, short of memory or disk. */
  #blocked = false;

  /** @param url where RabbitMQ is: the option, read and checked */
  constructor({ name, tls }: ToAmqpOptions, context: PluginContext, connect: AmqpBroker["connect"], url: string) {
    super({ scheme: "amqp", name, system: "RabbitMQ", takes: "messages", pattern: DESTINATION, rule: RULE }, context);
    const read = readTls(`amqp:${name}`, tls, context.configDir);
    this.#broker = { connect, url, tls: read, name: "relaybox", clock: context.clock };
  }

  override readiness(): string | undefined {
    const why = super.readiness();
    return why === undefined && this.#blocked ? "takes nothing: the broker is short of memory or disk" : why;
  }

  protected session(signal: AbortSignal, up: () => void): Promise<void> {
    return onAmqp(this.#broker, signal, async (connection, { promise }) => {
      this.#blocked = false;
      connection.on("blocked", (why) => {
        this.#blocked = true;
        this.log.warn("RabbitMQ takes no messages", { transport: this.name, error: why });
        this.endSends();
      });
      connection.on("unblocked", () => {
        this.#blocked = false;
        this.log.info("RabbitMQ takes messages again", { transport: this.name });
      });
      this.#exchanges = new Exchanges(connection);
      up();
      await unlessAborted(signal, promise);
    });
  }

  protected async publish([exchange = "", routingKey = ""]: readonly string[], request: TransportRequest) {
    if (this.#blocked || !this.up || this.#exchanges === undefined) return unavailable(this.name);
    const returned = await this.#exchanges.publish(exchange, routingKey, request);
    if (returned !== undefined)
      return refused(`no queue takes the routing key ${routingKey} of the exchange ${exchange} (${returned})`);
    return confirmed(`exchange ${exchange}, routing key ${routingKey}: confirmed`);
  }

  /** A channel belongs to one exchange alone: what the broker says of it is a matter of the destination. */
  protected failed(error: unknown): Reply {
    return error instanceof PublishRefused ? refusedBy(error.message) : unavailable(this.name);
  }
}
