/** The AMQP transport publishes each delivery to an exchange of RabbitMQ and waits for the broker's confirmation. */
import { checkedUrl, secretUrl } from "../../core/ports/options.ts";
import { packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { AMQP_PACKAGES, AMQP_PROTOCOLS, loadAmqp } from "../brokers/amqp.ts";
import type { ToAmqpOptions } from "./amqp/transport.ts";
import { busPlugin } from "./buses/plugin.ts";

/**
 * Delivers to `amqp:` URLs: `amqp://<name>/deposits/deposits.paid` is the exchange `deposits` with the routing key
 * `deposits.paid`; nothing is declared. The message is persistent and `mandatory`, its `messageId` is the same in each
 * attempt of a cycle, and its headers are named as they are. The broker's confirmation makes it delivered; a message
 * that no queue takes is a failure.
 */
export const toAmqp = (options: ToAmqpOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "amqp",
    options,
    rules: {
      url: secretUrl(AMQP_PROTOCOLS, true),
      tls: tlsRule(),
    },
    problems: packageProblems("toAmqp", AMQP_PACKAGES),
    secrets: { url: options?.url },
    async open(options, context) {
      const { connect } = await loadAmqp("toAmqp");
      const { AmqpBus } = await import("./amqp/transport.ts");
      const url = checkedUrl("toAmqp", context.secret("url"), AMQP_PROTOCOLS, true);
      return new AmqpBus(options, context, connect, url).connect();
    },
  });
